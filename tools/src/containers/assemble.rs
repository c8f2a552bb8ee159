//! A set of netCDF files becomes one: threads assemble windows of it in a file that gets its name when it is complete.

use super::at;
use aggio_formats::Logical;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a set is merged.
#[derive(Clone, Copy)]
pub(super) struct Assembly<'a> {
    pub(super) threads: usize,
    /// Whether the file is compared with the set at the end.
    pub(super) verify: bool,
    /// Whether a file that has the name already is replaced.
    pub(super) replace: bool,
    /// The permissions of the file.
    pub(super) mode: u32,
    pub(super) progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// What is done with a window, in room for its bytes.
type Act<'a> = dyn Fn(&Range<u64>, &mut [u8]) -> Result<(), String> + Sync + 'a;

/// A file without its name, under a hidden one where the file system has no nameless files: removed unless it gets it.
struct Unnamed {
    file: File,
    hidden: Option<PathBuf>,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // After success there is none, after a failure that is the one that counts.
            let _ = std::fs::remove_file(hidden);
        }
    }
}

impl Unnamed {
    /// A file in the directory of `to`.
    fn beside(to: &Path, mode: u32) -> Result<Self, String> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(folder_of(to), flags, Mode::from_raw_mode(mode)) {
            return Ok(Unnamed { file: File::from(file), hidden: None });
        }
        let path = Self::hidden_name(to)?;
        let mut how = OpenOptions::new();
        how.read(true).write(true).create_new(true).mode(mode);
        let file = how.open(&path).map_err(|why| at(&path, why))?;
        Ok(Unnamed { file, hidden: Some(path) })
    }

    fn hidden_name(to: &Path) -> Result<PathBuf, String> {
        let name = to.file_name().ok_or_else(|| at(to, "not the name of a file"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".aggio-{}", std::process::id()));
        Ok(to.with_file_name(hidden))
    }

    fn link(&self, to: &Path) -> rustix::io::Result<()> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, path, CWD, to, AtFlags::SYMLINK_FOLLOW)
    }

    /// Gives the file its name: `EEXIST` if somebody has that and must not be replaced.
    fn name(mut self, to: &Path, replace: bool) -> Result<(), String> {
        let told = |why: rustix::io::Errno| match why {
            rustix::io::Errno::EXIST => at(to, THERE),
            why => at(to, std::io::Error::from(why)),
        };
        let hidden = match self.hidden.clone() {
            None if !replace => return self.link(to).map_err(told),
            Some(hidden) => hidden,
            None => {
                let hidden = Self::hidden_name(to)?;
                self.link(&hidden).map_err(told)?;
                self.hidden.insert(hidden).clone()
            }
        };
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, &hidden, CWD, to, flags) {
            // File systems that cannot promise it: it was looked for before.
            Err(rustix::io::Errno::INVAL) if !replace => {
                std::fs::rename(&hidden, to).map_err(|why| at(to, why))
            }
            result => result.map_err(told),
        }
    }
}

/// What is wrong if a file has the name already.
pub(super) const THERE: &str = "there already (--force replaces it)";

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Assembly<'_> {
    pub(super) fn run(&self, from: &Logical, to: &Path) -> Result<(), String> {
        if !self.replace && to.symlink_metadata().is_ok() {
            return Err(at(to, THERE));
        }
        let made = Unnamed::beside(to, self.mode)?;
        let told = |why: std::io::Error| at(to, why);
        made.file.set_len(from.size()).map_err(told)?;
        let copy = |range: &Range<u64>, bytes: &mut [u8]| {
            read(from, range, bytes)?;
            made.file.write_all_at(bytes, range.start).map_err(told)
        };
        let whole = from.size() * if self.verify { 2 } else { 1 };
        self.each_window(from, 0..whole, &copy)?;
        made.file.sync_all().map_err(told)?;
        if self.verify {
            let compare = |range: &Range<u64>, bytes: &mut [u8]| {
                read(from, range, bytes)?;
                let mut copy = vec![0; bytes.len()];
                made.file.read_exact_at(&mut copy, range.start).map_err(told)?;
                let wrong = || at(to, format!("differs from the set in {range:?}"));
                if copy == bytes { Ok(()) } else { Err(wrong()) }
            };
            self.each_window(from, from.size()..whole, &compare)?;
        }
        made.name(to, self.replace)?;
        File::open(folder_of(to)).and_then(|folder| folder.sync_all()).map_err(told)
    }

    /// Does something with each window, on several threads; `done` is what is done before, and what is at the end.
    fn each_window(&self, of: &Logical, done: Range<u64>, act: &Act<'_>) -> Result<(), String> {
        let (windows, failure) = (Mutex::new(of.windows()), Mutex::new(None));
        let count = AtomicU64::new(done.start);
        let next = || windows.lock().ok().and_then(|mut windows| windows.next());
        let work = || {
            let mut bytes = Vec::new();
            while let Some(range) = next() {
                let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                bytes.resize(len, 0);
                if let Err(why) = act(&range, &mut bytes) {
                    if let Ok(mut failure) = failure.lock() {
                        failure.get_or_insert(why);
                    }
                    // Others stop, too.
                    next_to_end(&windows);
                    return;
                }
                let before = count.fetch_add(len as u64, Ordering::Relaxed);
                (self.progress)(before + len as u64, done.end);
            }
        };
        std::thread::scope(|scope| {
            let cores = || std::thread::available_parallelism().map_or(1, usize::from);
            let threads = if self.threads == 0 { cores() } else { self.threads };
            (0..threads).for_each(|_| {
                scope.spawn(work);
            });
        });
        match failure.into_inner() {
            Ok(Some(why)) => Err(why),
            _ => Ok(()),
        }
    }
}

fn next_to_end(windows: &Mutex<aggio_formats::Windows<'_>>) {
    if let Ok(mut windows) = windows.lock() {
        windows.by_ref().for_each(drop);
    }
}

fn read(from: &Logical, range: &Range<u64>, bytes: &mut [u8]) -> Result<(), String> {
    let count = from.read_window(bytes, range.start).map_err(|why| why.to_string())?;
    if count == bytes.len() { Ok(()) } else { Err(format!("{}: ends early", from.name())) }
}

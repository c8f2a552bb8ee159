//! A set of blobs beside the name that it stands for: its files get their names when all of them
//! are complete.

use super::{at, not_made, threads};
use agg_core::output::{Output, SetTurn, Unfinished, require_vacant};
use agg_core::workers::together;
use aggio_formats::blobs::{Content, Plan, Sink, file_name};
use aggio_formats::files::Files;
use aggio_formats::set::open_blobs;
use aggio_formats::{Error, Kind, Options, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// How a set is written.
pub(super) struct Writing<'a> {
    pub(super) threads: usize,
    /// Whether the set is compared with its source before its files get their names.
    pub(super) verify: bool,
    /// Whether files that have the names already are replaced.
    pub(super) replace: bool,
    /// The permissions of the files.
    pub(super) mode: u32,
    pub(super) progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Where the hidden names are noted that the files may have meanwhile.
    pub(super) unfinished: &'a Unfinished,
}

/// Something wrong with a file of the set.
fn told(name: &Path, why: &std::io::Error) -> Error {
    let kind = Kind::System(why.raw_os_error().unwrap_or(0));
    Error { file: name.display().to_string(), kind, what: why.to_string() }
}

/// A file of the set.
struct Target<'a> {
    name: &'a Path,
    file: &'a File,
    written: &'a (dyn Fn(u64) + Sync),
}

impl Sink for Target<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|why| told(self.name, &why))?;
        (self.written)(bytes.len() as u64);
        Ok(())
    }

    fn set_len(&self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(|why| told(self.name, &why))
    }
}

/// The files of a set, which have no names yet.
struct Made(Vec<(PathBuf, File)>);

impl Files for Made {
    fn name(&self, file: usize) -> String {
        self.0.get(file).map_or_else(String::new, |(name, _)| name.display().to_string())
    }

    fn size(&self, file: usize) -> Result<u64> {
        let (name, found) = &self.0[file];
        Ok(found.metadata().map_err(|why| told(name, &why))?.len())
    }

    fn read(&self, file: usize, buffer: &mut [u8], offset: u64) -> Result<()> {
        let (name, found) = &self.0[file];
        found.read_exact_at(buffer, offset).map_err(|why| told(name, &why))
    }
}

/// The names of the files of a set.
pub(super) fn names(to: &Path, count: usize) -> std::result::Result<Vec<PathBuf>, String> {
    let name = to.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| at(to, "not the name of a file"))?;
    Ok((0..count).map(|subfile| to.with_file_name(file_name(name, subfile))).collect())
}

impl Writing<'_> {
    /// Writes the set that stands for `to`.
    pub(super) fn run(
        &self,
        plan: &Plan,
        from: &dyn Content,
        to: &Path,
    ) -> std::result::Result<(), String> {
        let names = names(to, plan.subfiles())?;
        if to.symlink_metadata().is_ok() {
            return Err(at(to, "there already: a set is not seen where a file has its name"));
        }
        for name in &names {
            require_vacant(name, self.replace).map_err(|why| not_made(name, &why))?;
        }
        let create = |name: &PathBuf| {
            let made = Output::create(name, self.mode, self.unfinished);
            made.map_err(|why| not_made(name, &why))
        };
        let made: Vec<Output<'_>> =
            names.iter().map(create).collect::<std::result::Result<_, String>>()?;
        self.write_all(plan, from, &names, &made).map_err(|why| why.to_string())?;
        if self.verify {
            self.compare(from, &names, &made)?;
        }
        self.name_all(to, &names, made)
    }

    fn total(&self, from: &dyn Content) -> u64 {
        from.size() * if self.verify { 2 } else { 1 }
    }

    /// Writes all files, several at a time.
    fn write_all(
        &self,
        plan: &Plan,
        from: &dyn Content,
        names: &[PathBuf],
        made: &[Output<'_>],
    ) -> Result<()> {
        let (next, done, failure) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
        // The tables and headers of the files add bytes that the source does not have.
        let written = |bytes: u64| {
            let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            (self.progress)(done.min(from.size()), self.total(from));
        };
        let work = || {
            loop {
                let subfile = next.fetch_add(1, Ordering::Relaxed);
                let (Some(name), Some(made)) = (names.get(subfile), made.get(subfile)) else {
                    return;
                };
                let target = Target { name, file: made.file(), written: &written };
                let stored = || made.file().sync_all().map_err(|why| told(name, &why));
                if let Err(why) = plan.write(subfile, from, &target).and_then(|()| stored()) {
                    // Others stop, too.
                    next.store(names.len(), Ordering::Relaxed);
                    if let Ok(mut failure) = failure.lock() {
                        failure.get_or_insert(why);
                    }
                }
            }
        };
        together(threads(self.threads).min(names.len()), "aggio-blobs", None, work);
        match failure.into_inner() {
            Ok(Some(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// The set has the bytes that it was made of.
    fn compare(
        &self,
        from: &dyn Content,
        names: &[PathBuf],
        made: &[Output<'_>],
    ) -> std::result::Result<(), String> {
        let files = names.iter().zip(made).map(|(name, made)| {
            let file = made.file().try_clone().map_err(|why| at(name, why))?;
            Ok((name.clone(), file))
        });
        let files = files.collect::<std::result::Result<Vec<(PathBuf, File)>, String>>()?;
        let count = files.len();
        let words = |why: Error| why.to_string();
        let set = open_blobs(Arc::new(Made(files)), count, &Options::default()).map_err(words)?;
        let differs = |at: u64| format!("{}: the set differs behind byte {at}", names[0].display());
        if set.size() != from.size() {
            return Err(differs(set.size().min(from.size())));
        }
        let (mut found, mut wanted) = (Vec::new(), Vec::new());
        for window in set.windows() {
            let len = usize::try_from(window.end - window.start).unwrap_or(usize::MAX);
            found.resize(len, 0);
            wanted.resize(len, 0);
            set.read_window(&mut found, window.start).map_err(words)?;
            from.read_at(&mut wanted, window.start).map_err(words)?;
            if found != wanted {
                return Err(differs(window.start));
            }
            (self.progress)(from.size() + window.end, self.total(from));
        }
        Ok(())
    }

    /// Gives the files their names, the first file's last: without it there is no set. If a file
    /// cannot get its name, the new ones are removed. Another process that names the files of the
    /// same set waits.
    fn name_all(
        &self,
        to: &Path,
        names: &[PathBuf],
        made: Vec<Output<'_>>,
    ) -> std::result::Result<(), String> {
        let _turn = SetTurn::take(to).map_err(|why| at(to, why))?;
        for (subfile, (name, made)) in names.iter().zip(made).enumerate().rev() {
            if let Err(why) = made.publish(self.replace) {
                for named in names.iter().skip(subfile + 1).filter(|_| !self.replace) {
                    // The error to report is the reason why there is no set.
                    let _ = std::fs::remove_file(named);
                }
                return Err(not_made(name, &why));
            }
        }
        Ok(())
    }
}

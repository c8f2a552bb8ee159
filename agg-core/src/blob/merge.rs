//! A container becomes an ordinary file: several threads copy windows, and a run that was interrupted
//! goes on where it was.

use super::check::{Check, check};
use super::container::Container;
use super::dir::{Dir, c_path};
use super::read::Reader;
use super::{damaged, failed, names};
use crate::workers::together;
use crate::{Extent, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the file that a thread copies at a time.
const WINDOW: u64 = 8 << 20;

/// How a container is merged.
#[derive(Clone, Copy)]
pub struct Merge<'a> {
    /// Threads that copy; 0 for as many as there are cores.
    pub threads: usize,
    /// Whether all checksums are checked before, and the copy is compared with the container after.
    pub verify: bool,
    /// Whether a file that has the name already is replaced.
    pub replace: bool,
    /// Called now and then with the bytes done and their total.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

/// What merging did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of it that an interrupted run had copied before.
    pub resumed: u64,
}

/// Merges the container `from` to the ordinary file `to`, which appears when it is complete.
///
/// # Errors
///
/// If the container is damaged, changes meanwhile, or the file cannot be written. What was copied stays
/// under a hidden name beside `to`, and the next run goes on with it.
pub fn merge(from: &Path, to: &Path, how: &Merge<'_>) -> Result<Merged> {
    if how.verify {
        refuse_damage(from)?;
    }
    if !how.replace && std::fs::symlink_metadata(to).is_ok() {
        return Err(failed("create", &io::Error::from_raw_os_error(libc::EEXIST), to));
    }
    let container = Container::open(from)?;
    let reader = container.reader()?;
    let partial = Partial::open(&container, &reader, to)?;
    let resumed = copy(&reader, &partial, how)?;
    if how.verify {
        compare(&reader, &partial, how)?;
    }
    finish(&container, partial, to, how)?;
    Ok(Merged { size: reader.size(), resumed })
}

fn refuse_damage(from: &Path) -> Result<()> {
    let findings = check(from, &Check { data: true, ..Check::default() })?;
    let Some(worst) = findings.problems.iter().max_by_key(|problem| problem.severity) else {
        return Ok(());
    };
    if findings.exit_code() < 4 {
        return Ok(());
    }
    let place = worst.place.map_or(String::new(), |place| format!(" at byte {place}"));
    let words = format!("{}{place}: {}", worst.part, worst.words);
    Err(damaged(words).with_path(&from.display().to_string()))
}

/// The unfinished copy, and which windows of it are done.
struct Partial {
    file: File,
    path: PathBuf,
    /// A line that says of what it is a copy, and then one byte for each window.
    journal: File,
    journal_path: PathBuf,
    head: usize,
}

fn beside(to: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(end);
    names::parent_of(to).join(name)
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| failed("open", &error, path))?;
    let facts = file.metadata().map_err(|error| failed("fstat", &error, path))?;
    if !facts.is_file() {
        return Err(damaged("it is not a regular file").with_path(&path.display().to_string()));
    }
    Ok(file)
}

impl Partial {
    fn open(container: &Container, reader: &Reader, to: &Path) -> Result<Self> {
        let (path, journal_path) = (beside(to, ".aggio-merging"), beside(to, ".aggio-merged"));
        let (file, journal) = (open(&path)?, open(&journal_path)?);
        let fail = |error: io::Error| failed("write", &error, &journal_path);
        let attributes = container.attributes()?;
        let head = format!(
            "merge of {:016x} generation {} size {} window {WINDOW}\n",
            attributes.inode,
            reader.generation(),
            reader.size()
        );
        let mut old = vec![0; head.len()];
        let known = journal.read_exact_at(&mut old, 0).is_ok() && old == head.as_bytes();
        // What is being written may have changed without another generation.
        if !known || !reader.is_sealed() {
            file.set_len(0).and_then(|()| journal.set_len(0)).map_err(fail)?;
            journal.write_all_at(head.as_bytes(), 0).map_err(fail)?;
        }
        file.set_len(reader.size()).map_err(|error| failed("ftruncate", &error, &path))?;
        Ok(Self { file, path, journal, journal_path, head: head.len() })
    }

    fn is_done(&self, window: u64) -> bool {
        let mut byte = [0];
        let read = self.journal.read_at(&mut byte, self.head as u64 + window);
        read.is_ok_and(|n| n == 1) && byte == *b"x"
    }

    fn set_done(&self, window: u64) -> Result<()> {
        let place = self.head as u64 + window;
        self.journal
            .write_all_at(b"x", place)
            .map_err(|error| failed("pwrite", &error, &self.journal_path))
    }
}

/// What is done with a window: its number, its bytes, and a buffer that may be used.
type Work<'a> = &'a (dyn Fn(u64, Extent, &mut Vec<u8>) -> Result<()> + Sync);

/// Runs `work` for every window of the file, on several threads; the first error ends all of them.
fn each_window(reader: &Reader, how: &Merge<'_>, work: Work<'_>) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if how.threads == 0 { cores } else { how.threads };
    let (size, next, done) = (reader.size(), AtomicU64::new(0), AtomicU64::new(0));
    let windows = size.div_ceil(WINDOW);
    let failure = OnceLock::new();
    let run = || {
        let mut buffer = Vec::new();
        loop {
            let window = next.fetch_add(1, Ordering::Relaxed);
            if window >= windows {
                return;
            }
            let extent = Extent::new(window * WINDOW, WINDOW).intersect(Extent::new(0, size));
            if let Err(error) = work(window, extent, &mut buffer) {
                next.store(windows, Ordering::Relaxed);
                failure.get_or_init(|| error);
                return;
            }
            let sum = done.fetch_add(extent.len, Ordering::Relaxed) + extent.len;
            if let Some(progress) = how.progress {
                progress(sum, size);
            }
        }
    };
    together(threads, "aggio-merge", None, run);
    failure.into_inner().map_or(Ok(()), Err)
}

/// Copies what is not done; returns how many bytes were.
fn copy(reader: &Reader, partial: &Partial, how: &Merge<'_>) -> Result<u64> {
    let resumed = AtomicU64::new(0);
    each_window(reader, how, &|window, extent, buffer| {
        if partial.is_done(window) {
            resumed.fetch_add(extent.len, Ordering::Relaxed);
            return Ok(());
        }
        copy_window(reader, partial, extent, buffer)?;
        partial.set_done(window)
    })?;
    Ok(resumed.into_inner())
}

fn copy_window(
    reader: &Reader,
    partial: &Partial,
    extent: Extent,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    for part in segments_of_data(reader, extent)? {
        buffer.resize(part.len as usize, 0);
        read(reader, buffer, part)?;
        partial
            .file
            .write_all_at(buffer, part.offset)
            .map_err(|error| failed("pwrite", &error, &partial.path).with_extent(part))?;
    }
    Ok(())
}

/// The parts of `extent` that somebody wrote; holes stay holes.
fn segments_of_data(reader: &Reader, extent: Extent) -> Result<Vec<Extent>> {
    let mut parts: Vec<Extent> = Vec::new();
    for segment in reader.segments(extent)?.iter().filter(|segment| segment.source.is_some()) {
        match parts.last_mut() {
            Some(last) if last.end() == segment.logical.offset => last.len += segment.logical.len,
            _ => parts.push(segment.logical),
        }
    }
    Ok(parts)
}

fn read(reader: &Reader, buffer: &mut [u8], extent: Extent) -> Result<()> {
    if reader.read_at(buffer, extent.offset)? as u64 == extent.len {
        return Ok(());
    }
    Err(damaged("the container ends before its size").with_extent(extent))
}

/// Compares the copy with the container; a window that differs, as after a crash of the system while
/// an earlier run was at work, is copied once more.
fn compare(reader: &Reader, partial: &Partial, how: &Merge<'_>) -> Result<()> {
    each_window(reader, how, &|_, extent, buffer| {
        if same(reader, partial, extent, buffer)? {
            return Ok(());
        }
        let zeros = vec![0; extent.len as usize];
        partial
            .file
            .write_all_at(&zeros, extent.offset)
            .map_err(|error| failed("pwrite", &error, &partial.path))?;
        copy_window(reader, partial, extent, buffer)?;
        if same(reader, partial, extent, buffer)? {
            return Ok(());
        }
        let path = partial.path.display().to_string();
        Err(damaged("the copy differs from the container").with_extent(extent).with_path(&path))
    })
}

fn same(reader: &Reader, partial: &Partial, extent: Extent, buffer: &mut Vec<u8>) -> Result<bool> {
    buffer.resize(extent.len as usize, 0);
    read(reader, buffer, extent)?;
    let mut copy = vec![0; buffer.len()];
    partial
        .file
        .read_exact_at(&mut copy, extent.offset)
        .map_err(|error| failed("pread", &error, &partial.path).with_extent(extent))?;
    Ok(copy == *buffer)
}

/// Gives the copy the container's attributes and its name, and removes the journal.
fn finish(container: &Container, partial: Partial, to: &Path, how: &Merge<'_>) -> Result<()> {
    let attributes = container.attributes()?;
    let fail = |error: io::Error| failed("fsync", &error, &partial.path);
    let times = std::fs::FileTimes::new().set_modified(attributes.mtime);
    partial.file.set_permissions(Permissions::from_mode(attributes.mode)).map_err(fail)?;
    partial.file.set_times(times).map_err(fail)?;
    partial.file.sync_all().map_err(fail)?;
    if how.replace {
        c_path(to)?;
        std::fs::rename(&partial.path, to).map_err(|error| failed("rename", &error, to))?;
    } else {
        names::rename_new(&partial.path, to)?;
    }
    std::fs::remove_file(&partial.journal_path)
        .map_err(|error| failed("unlink", &error, &partial.journal_path))?;
    Dir::open_following(&names::parent_of(to))?.sync()
}

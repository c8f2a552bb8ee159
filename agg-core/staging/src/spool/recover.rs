//! Writes the bytes in spool files of killed processes to the files where they belong.

use super::change::{self, Others, Place};
use super::layout::SlotHead;
use super::own::SharedHead;
use super::reading::{HeadCopy, SlotCopy, each_slot};
use super::stored::Stored;
use super::version::{Version, time_of};
use super::{is_new, is_spool, lock, started};
use aggio_base::{Error, ErrorClass, Extent, Result, host};
use aggio_container::blob::{Container, is_container};
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// The result for one file that a killed process had not finished writing.
#[derive(Debug)]
pub struct Recovered {
    /// The spool file.
    pub spool: PathBuf,
    /// The file that the bytes belong to.
    pub path: PathBuf,
    /// Bytes that were written to the file.
    pub bytes: u64,
    /// Why they were not; then they are still in the spool file.
    pub error: Option<Error>,
}

/// Finishes the writes of killed processes of this user: for every spool file in `directory` with a
/// dead owner, writes the acknowledged bytes to their files, and removes the spool file.
///
/// Spool files of living processes are left alone, and those of other machines. Bytes stay in their
/// spool file if somebody else has changed their file since, or a write failed.
///
/// # Errors
/// If the directory cannot be listed. Failures in a spool file are reported in the list.
pub fn recover(directory: &Path) -> Result<Vec<Recovered>> {
    recover_as(directory, How::default())
}

/// As [`recover()`], on request of a user: also names spool files of other machines, and writes to
/// files that somebody else has changed since if `changed`.
///
/// # Errors
/// The same.
pub fn recover_all(directory: &Path, changed: bool) -> Result<Vec<Recovered>> {
    recover_as(directory, How { changed, foreign: true })
}

/// The options of a recovery on request.
#[derive(Clone, Copy, Default)]
struct How {
    /// Files that changed since are written to.
    changed: bool,
    /// Spool files of other machines are named.
    foreign: bool,
}

/// The owner of an abandoned spool file.
enum Abandoned {
    /// No living process.
    Here(File),
    /// A process of another machine, which may be alive.
    Elsewhere,
}

fn recover_as(directory: &Path, how: How) -> Result<Vec<Recovered>> {
    // SAFETY: asks for a number.
    let uid = unsafe { libc::geteuid() };
    let failed = |error| Error::os("readdir", &error).with_path(&directory.display().to_string());
    let mut done = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_new(&path, uid) {
            remove_new(&path, uid);
            continue;
        }
        match is_spool(&path, uid).then(|| open_abandoned(&path, uid)).flatten() {
            Some(Abandoned::Here(file)) => finish(&file, &path, how, &mut done),
            Some(Abandoned::Elsewhere) if how.foreign => {
                let words = "it is another machine's: `aggio recover` there finishes it";
                let error = Some(Error::new(ErrorClass::FileInUse, words));
                done.push(Recovered { spool: path.clone(), path, bytes: 0, error });
            }
            _ => {}
        }
    }
    Ok(done)
}

/// The spool file at `path`, locked, and its metadata; `None` if another process has it locked.
fn open_locked(path: &Path, uid: u32) -> Option<(File, std::fs::Metadata)> {
    let mut how = File::options();
    how.read(true).write(true);
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = how.custom_flags(flags).open(path).ok()?;
    let facts = file.metadata().ok()?;
    let is_own = facts.is_file() && facts.uid() == uid && facts.mode() & 0o077 == 0;
    (is_own && lock(&file)).then_some((file, facts))
}

/// The spool file at `path`, locked, if its owner is dead.
fn open_abandoned(path: &Path, uid: u32) -> Option<Abandoned> {
    let (file, _) = open_locked(path, uid)?;
    // Damage is reported where the file is read.
    let Ok(head) = HeadCopy::read(&file, path) else { return Some(Abandoned::Here(file)) };
    let owner = head.owner(&[]);
    if owner.boot != host::boot_number() {
        // Where locks do not reach beyond a machine, a free lock proves nothing.
        let same_host = owner.host == host::machine();
        return Some(if same_host { Abandoned::Here(file) } else { Abandoned::Elsewhere });
    }
    let alive = started(owner.pid).is_some_and(|at| at == owner.started);
    (!alive).then_some(Abandoned::Here(file))
}

/// Removes a spool file without its final name, because its owner died before: it has no bytes.
fn remove_new(path: &Path, uid: u32) {
    if open_locked(path, uid).is_some_and(|(_, facts)| is_old(&facts)) {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether it is so old that no process can be in the middle of making it.
fn is_old(facts: &std::fs::Metadata) -> bool {
    facts.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age.as_secs() > 60)
}

/// Writes the pieces of the spool file to their files, and removes it if nothing failed.
fn finish(file: &File, spool: &Path, how: How, done: &mut Vec<Recovered>) {
    let before = done.len();
    let mut others = Others::beside(spool);
    let mut told = |path: PathBuf, bytes, error: Option<Error>| {
        done.push(Recovered { spool: spool.to_path_buf(), path, bytes, error });
    };
    if let Err(error) = each_slot(file, spool, &mut |slot| {
        // If the file of a slot is unknown, report the spool file.
        let path = if slot.count().is_ok() { slot.path() } else { spool.to_path_buf() };
        match store(file, slot, &path, how, &mut others) {
            Ok(0) => {}
            Ok(bytes) => told(path, bytes, None),
            Err(error) => told(path, 0, Some(error)),
        }
    }) {
        told(spool.to_path_buf(), 0, Some(error.with_path(&spool.display().to_string())));
    }
    if done[before..].iter().all(|one| one.error.is_none()) {
        let _ = std::fs::remove_file(spool);
    }
}

/// Writes the pieces of one slot, which has none afterwards; returns how many bytes.
fn store(spool: &File, slot: &SlotCopy, path: &Path, how: How, others: &mut Others) -> Result<u64> {
    let named = |error: Error| error.with_path(&path.display().to_string());
    if slot.count().map_err(named)? == 0 {
        return Ok(0);
    }
    let target = open_target(slot, path).map_err(named)?;
    let pieces = slot.pieces(spool).map_err(named)?;
    let bytes: u64 = pieces.iter().map(|(_, run)| run.len() as u64).sum();
    let has_none = || {
        let written =
            spool.write_all_at(&slot.no_pieces(), slot.place_of(offset_of!(SlotHead, count)));
        written.map_err(|error| named(Error::os("pwrite", &error)))
    };
    match &target {
        Target::File(file) => {
            let [device, inode, _] = slot.identity();
            let own = Place::new(spool, slot);
            let places = others.places([device, inode]);
            if !how.changed && !is_its_version(file, own, places) {
                if !Stored::of(file, &pieces, 0).is_some_and(|stored| stored.all) {
                    return Err(named(changed(bytes)));
                }
                // The bytes are in the file already, from any writer: there is nothing to do.
                has_none()?;
                return Ok(0);
            }
            write_as_owner(spool, slot, file, &pieces, others).map_err(named)?;
        }
        Target::Container(container) => write_to_container(container, &pieces).map_err(named)?,
    }
    // If the spool stays because of other files, these pieces must not be written again.
    has_none()?;
    Ok(bytes)
}

/// Writes pieces to a file as the owner of their slot would: the change is recorded for the process
/// that recovers them if this one is killed meanwhile, and for others that keep bytes of that file.
fn write_as_owner(
    spool: &File,
    slot: &SlotCopy,
    file: &File,
    pieces: &[(u64, Vec<u8>)],
    others: &mut Others,
) -> Result<()> {
    let fd = file.as_raw_fd();
    let head = SharedHead::map(spool, slot.place_of(0)).map_err(|e| Error::os("mmap", &e))?;
    let [device, inode, _] = slot.identity();
    let own = Place::new(spool, slot);
    let change = others.begin_from(own, [device, inode], fd, Version::now(fd));
    head.belong_to_file(fd);
    head.stored.store(0, Relaxed);
    head.until.store(change::deadline(), Release);
    let written = write_to_file(file, pieces, &mut |done| head.stored.store(done, Release));
    if let Some(change) = change {
        let version = Version::now(fd);
        head.size.store(version.size, Release);
        others.end_at(&change, version);
    }
    head.belong_to_file(fd);
    written
}

/// The error for bytes of a file that is another one now.
fn changed(bytes: u64) -> Error {
    let words = format!(
        "somebody has changed the file since {bytes} bytes of a killed process were kept back for \
         it; they are not written (`aggio recover --changed` does it, removing their spool file \
         gives them up)"
    );
    Error::new(ErrorClass::Io, words).with_errno(libc::ESTALE)
}

/// Whether only processes that keep bytes of the file have changed it since the version that the
/// owner of the bytes recorded.
fn is_its_version(file: &File, own: Option<Place>, mut places: Vec<Place>) -> bool {
    let stamp = own.as_ref().map_or(0, Place::stamp);
    places.extend(own);
    let since = change::since(&places, file, Version::now(file.as_raw_fd()));
    stamp != 0 && since.is_some_and(|since| time_of(stamp) >= since)
}

/// The destination of the bytes of a slot.
enum Target {
    File(File),
    Container(Container),
}

/// Writes pieces in their order, since later ones cover earlier ones, and records how many are
/// written.
fn write_to_file(
    file: &File,
    pieces: &[(u64, Vec<u8>)],
    record: &mut dyn FnMut(u32),
) -> Result<()> {
    for ((offset, run), done) in pieces.iter().zip(1..) {
        let extent = Extent::new(*offset, run.len() as u64);
        let written = file.write_all_at(run, *offset);
        written.map_err(|error| Error::os("pwrite", &error).with_extent(extent))?;
        record(done);
    }
    Ok(())
}

/// Writes the same as one frame.
fn write_to_container(container: &Container, pieces: &[(u64, Vec<u8>)]) -> Result<()> {
    let writer = container.writer()?;
    let pieces: Vec<_> = pieces.iter().map(|(at, run)| (*at, &run[..])).collect();
    writer.write_pieces(&pieces)?;
    writer.close()
}

/// Opens the file or container that the bytes belong to: it must have the same name, inode and
/// birth still.
fn open_target(slot: &SlotCopy, path: &Path) -> Result<Target> {
    let is_dir = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let kind = if is_dir { libc::O_DIRECTORY } else { 0 };
    let open = |read: bool| {
        let mut how = File::options();
        how.read(read).write(!is_dir).custom_flags(flags | kind).open(path)
    };
    // Without permission to read, open it for writing only.
    let file = open(true).or_else(|error| match error.raw_os_error() {
        Some(libc::EACCES) if !is_dir => open(false),
        _ => Err(error),
    });
    let file = file.map_err(|error| Error::os("open", &error))?;
    let facts = file.metadata().map_err(|error| Error::os("fstat", &error))?;
    let same = [facts.dev(), facts.ino(), super::born(file.as_raw_fd())] == slot.identity();
    match (same, is_dir && is_container(path)) {
        (true, true) => Container::open(path).map(Target::Container),
        (true, false) if facts.is_file() => Ok(Target::File(file)),
        _ => {
            let text = "another file has the name of the one that was written";
            Err(Error::new(ErrorClass::NoSuchFile, text))
        }
    }
}

#[cfg(test)]
mod tests;

//! Putting into their files what killed processes left in their spool files.

use super::change::{self, Others, Place};
use super::layout::{
    HEAD, Head, MAGIC, MOST_DATA, PAGE, PATH, PIECES, Piece, SLOT_HEAD, SlotHead, VERSION,
};
use super::stored::{self, Stored};
use super::version::{Version, time_of};
use super::{boot, host, is_spool, lock, started};
use crate::blob::{Container, is_container};
use crate::{Error, ErrorClass, Extent, Result};
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What was done about one file that a killed process had not finished writing.
#[derive(Debug)]
pub struct Recovered {
    /// The spool file.
    pub spool: PathBuf,
    /// The file whose bytes were in it.
    pub path: PathBuf,
    /// Bytes that were written to the file.
    pub bytes: u64,
    /// Why they were not; then they are still in the spool file.
    pub error: Option<Error>,
}

/// Finishes the writes of killed processes of this user: puts every acknowledged byte that is in a
/// spool file in `directory` and whose owner is dead into its file, and removes the spool file.
///
/// Spool files of living processes are left alone, and those of other machines. Bytes of a file
/// that somebody else has changed since stay in theirs, and so do those of which a write failed.
///
/// # Errors
/// If the directory cannot be listed. What fails in a spool file is told in the list.
pub fn recover(directory: &Path) -> Result<Vec<Recovered>> {
    recover_as(directory, How::default())
}

/// As [`recover()`], for a user who asks for it: also names what other machines have left, and
/// writes to files that somebody else has changed since if `changed`.
///
/// # Errors
/// The same.
pub fn recover_all(directory: &Path, changed: bool) -> Result<Vec<Recovered>> {
    recover_as(directory, How { changed, foreign: true })
}

/// What is done beyond what every program does.
#[derive(Clone, Copy, Default)]
struct How {
    /// Files that changed since are written to.
    changed: bool,
    /// Spool files of other machines are named.
    foreign: bool,
}

/// Whose a spool file is.
enum Abandoned {
    /// Nobody's who lives.
    Here(File),
    /// Somebody's on another machine, who may live.
    Elsewhere,
}

fn recover_as(directory: &Path, how: How) -> Result<Vec<Recovered>> {
    // SAFETY: asks for a number.
    let uid = unsafe { libc::geteuid() };
    let failed = |error| Error::os("readdir", &error).with_path(&directory.display().to_string());
    let mut done = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
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

/// The spool file at `path`, locked, if its owner is dead.
fn open_abandoned(path: &Path, uid: u32) -> Option<Abandoned> {
    let mut how = File::options();
    how.read(true).write(true);
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = how.custom_flags(flags).open(path).ok()?;
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.uid() != uid || facts.mode() & 0o077 != 0 || !lock(&file) {
        return None;
    }
    let mut head = [0; HEAD];
    if file.read_exact_at(&mut head, 0).is_err() {
        // Its owner died, or is about to write the head.
        return (facts.len() == 0 && is_old(&facts)).then_some(Abandoned::Here(file));
    }
    if word(&head, offset_of!(Head, magic)) != MAGIC {
        return None;
    }
    if word32(&head, offset_of!(Head, version)) != VERSION {
        // Told where it is read.
        return Some(Abandoned::Here(file));
    }
    let at = offset_of!(Head, boot);
    if [word(&head, at), word(&head, at + 8)] != boot() {
        // A lock that nobody has says nothing where locks end at the machine.
        let same_host = word(&head, offset_of!(Head, host)) == host();
        return Some(if same_host { Abandoned::Here(file) } else { Abandoned::Elsewhere });
    }
    let pid = word32(&head, offset_of!(Head, pid));
    let alive = started(pid).is_some_and(|at| at == word(&head, offset_of!(Head, started)));
    (!alive).then_some(Abandoned::Here(file))
}

/// Whether nobody can be in the middle of making it.
fn is_old(facts: &std::fs::Metadata) -> bool {
    facts.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age.as_secs() > 60)
}

/// Writes what is in the spool file, and removes it if nothing failed.
fn finish(file: &File, spool: &Path, how: How, done: &mut Vec<Recovered>) {
    let before = done.len();
    let mut others = Others::beside(spool);
    let mut told = |path: PathBuf, bytes, error: Option<Error>| {
        done.push(Recovered { spool: spool.to_path_buf(), path, bytes, error });
    };
    if let Err(error) = each_slot(file, &mut |head, data| {
        let path = path_of(head);
        match store(file, head, data, &path, how, &mut others) {
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

/// Calls `with` with the head of every slot in use and the place of its data.
pub(super) fn each_slot(file: &File, with: &mut dyn FnMut(&[u8], u64)) -> Result<()> {
    let mut head = vec![0; SLOT_HEAD];
    let failed = |error| Error::os("read", &error);
    let len = file.metadata().map_err(failed)?.len();
    if len == 0 {
        return Ok(());
    }
    file.read_exact_at(&mut head[..HEAD], 0).map_err(failed)?;
    let version = word32(&head, offset_of!(Head, version));
    if version != VERSION {
        let text = format!("version {version} of spool files is not known here");
        return Err(Error::new(ErrorClass::UnsupportedOperation, text));
    }
    let mut place = HEAD as u64;
    while place + SLOT_HEAD as u64 <= len {
        file.read_exact_at(&mut head, place).map_err(failed)?;
        let data = place + SLOT_HEAD as u64;
        let is_used = word32(&head, offset_of!(SlotHead, used)) == 1;
        let room = room_of(&head, data, len)?;
        if is_used {
            with(&head, data);
        } else if room == 0 {
            // Its owner died before it was one, and no other follows.
            break;
        }
        place = data + room;
    }
    Ok(())
}

/// Bytes of data of a slot whose data begin at `data` of a spool file of `len` bytes.
fn room_of(head: &[u8], data: u64, len: u64) -> Result<u64> {
    let room = word(head, offset_of!(SlotHead, room));
    let whole = room <= MOST_DATA as u64 && room.is_multiple_of(PAGE as u64) && data + room <= len;
    if !whole {
        let text = format!("a slot of the spool file has {room} bytes of data at {data} of {len}");
        return Err(Error::new(ErrorClass::Io, text));
    }
    Ok(room)
}

/// Writes the pieces of one slot, which has none afterwards; how many bytes.
fn store(
    spool: &File,
    head: &[u8],
    data: u64,
    path: &Path,
    how: How,
    others: &mut Others,
) -> Result<u64> {
    if word32(head, offset_of!(SlotHead, count)) == 0 {
        return Ok(0);
    }
    let named = |error: Error| error.with_path(&path.display().to_string());
    let target = open_target(head, path).map_err(named)?;
    let pieces = pieces_of(spool, head, data).map_err(named)?;
    let bytes: u64 = pieces.iter().map(|(_, run)| run.len() as u64).sum();
    let slot = data - SLOT_HEAD as u64;
    let set = |field: usize, value: &[u8]| {
        let written = spool.write_all_at(value, slot + field as u64);
        written.map_err(|error| named(Error::os("pwrite", &error)))
    };
    if let Target::File(file) = &target {
        let identity = [offset_of!(SlotHead, device), offset_of!(SlotHead, inode)];
        let identity = identity.map(|at| word(head, at));
        let own = || Place::new(spool, head, data);
        if !how.changed && !is_its_version(file, own(), others.places(identity)) {
            if !Stored::of(file, &pieces, 0).is_some_and(|stored| stored.all) {
                return Err(named(changed(bytes)));
            }
            // Whoever has written them: there is nothing to do.
            set(offset_of!(SlotHead, count), &0_u32.to_ne_bytes())?;
            return Ok(0);
        }
        let (fd, number) = (file.as_raw_fd(), u64::to_ne_bytes);
        let before = Version::known(fd);
        let change = others.begin_from(own(), identity, fd, before);
        set(offset_of!(SlotHead, stamp), &number(before.stamp()))?;
        set(offset_of!(SlotHead, size), &number(before.size))?;
        set(offset_of!(SlotHead, stored), &0_u32.to_ne_bytes())?;
        set(offset_of!(SlotHead, until), &number(change::deadline()))?;
        let mut record = |done: u32| set(offset_of!(SlotHead, stored), &done.to_ne_bytes());
        let written = write_to_file(file, &pieces, &mut record).map_err(named);
        if let Some(change) = change {
            let version = Version::known(fd);
            set(offset_of!(SlotHead, size), &number(version.size))?;
            others.end_at(&change, version);
        }
        set(offset_of!(SlotHead, stamp), &number(Version::known(fd).stamp()))?;
        written?;
    }
    if let Target::Container(container) = &target {
        write_to_container(container, &pieces).map_err(named)?;
    }
    // What stays of the spool because of other files must not come again.
    set(offset_of!(SlotHead, count), &0_u32.to_ne_bytes())?;
    Ok(bytes)
}

/// The error for bytes of a file that is another one now.
fn changed(bytes: u64) -> Error {
    let words = format!(
        "somebody has changed the file since {bytes} bytes of a killed process were kept back for it; they are not \
         written (`aggio recover --changed` does it, removing their spool file gives them up)"
    );
    Error::new(ErrorClass::Io, words).with_errno(libc::ESTALE)
}

/// Whether nobody has changed the file since the owner of the bytes knew it, but those who keep
/// bytes of it.
fn is_its_version(file: &File, own: Option<Place>, mut places: Vec<Place>) -> bool {
    let stamp = own.as_ref().map_or(0, Place::stamp);
    places.extend(own);
    let since = change::since(&places, file, Version::now(file.as_raw_fd()));
    stamp != 0 && since.is_some_and(|since| time_of(stamp) >= since)
}

/// What the file holds of the pieces of a slot whose owner was killed while it wrote them.
pub(super) fn stored(file: &File, spool: &File, head: &[u8], data: u64) -> Option<Stored> {
    let pieces = pieces_of(spool, head, data).ok()?;
    Stored::of(file, &pieces, word32(head, offset_of!(SlotHead, stored)) as usize)
}

/// The pieces of a slot in the order in which they are written: where they belong, and their bytes.
fn pieces_of(spool: &File, head: &[u8], data: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let count = word32(head, offset_of!(SlotHead, count)) as usize;
    let (mut pieces, mut room) = (Vec::new(), word(head, offset_of!(SlotHead, room)));
    for index in 0..count {
        let (extent, place) = piece(head, index)?;
        room = room.checked_sub(extent.len).ok_or_else(|| {
            let text = format!("piece {index} of the spool file: more bytes than there is room");
            Error::new(ErrorClass::Io, text)
        })?;
        let mut run = vec![0; extent.len as usize];
        spool.read_exact_at(&mut run, data + place).map_err(|error| Error::os("pread", &error))?;
        pieces.push((extent.offset, run));
    }
    Ok(stored::sorted(pieces))
}

/// What the bytes of a slot are written to.
enum Target {
    File(File),
    Container(Container),
}

/// Writes pieces, of which later ones cover earlier ones, and records how many are written.
fn write_to_file(
    file: &File,
    pieces: &[(u64, Vec<u8>)],
    record: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<()> {
    for ((offset, run), done) in pieces.iter().zip(1..) {
        let extent = Extent::new(*offset, run.len() as u64);
        let written = file.write_all_at(run, *offset);
        written.map_err(|error| Error::os("pwrite", &error).with_extent(extent))?;
        record(done)?;
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

/// The file or container whose bytes they are: of the same name, and the same inode still.
fn open_target(head: &[u8], path: &Path) -> Result<Target> {
    let is_dir = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let kind = if is_dir { libc::O_DIRECTORY } else { 0 };
    let open = |read: bool| {
        let mut how = File::options();
        how.read(read).write(!is_dir).custom_flags(flags | kind).open(path)
    };
    // Who may only write cannot look at what is there.
    let file = open(true).or_else(|error| match error.raw_os_error() {
        Some(libc::EACCES) if !is_dir => open(false),
        _ => Err(error),
    });
    let file = file.map_err(|error| Error::os("open", &error))?;
    let facts = file.metadata().map_err(|error| Error::os("fstat", &error))?;
    let field = |at| word(head, at);
    let known = [offset_of!(SlotHead, device), offset_of!(SlotHead, inode)].map(field);
    let same = [facts.dev(), facts.ino()] == known
        && super::born(file.as_raw_fd()) == field(offset_of!(SlotHead, born));
    match (same, is_dir && is_container(path)) {
        (true, true) => Container::open(path).map(Target::Container),
        (true, false) if facts.is_file() => Ok(Target::File(file)),
        _ => {
            let text = "another file has the name of the one that was written";
            Err(Error::new(ErrorClass::NoSuchFile, text))
        }
    }
}

/// Piece `index`: where it belongs, and where it is in the data.
fn piece(head: &[u8], index: usize) -> Result<(Extent, u64)> {
    let damaged = |text: String| Error::new(ErrorClass::Io, text);
    if index >= PIECES {
        return Err(damaged(format!("the spool file has piece {index} of at most {PIECES}")));
    }
    let at = offset_of!(SlotHead, pieces) + index * size_of::<Piece>();
    let field = |offset| word(head, at + offset);
    let (offset, len) = (field(offset_of!(Piece, offset)), field(offset_of!(Piece, len)));
    let place = field(offset_of!(Piece, place));
    let room = word(head, offset_of!(SlotHead, room));
    let inside = place.checked_add(len).is_some_and(|end| end <= room);
    if !inside || offset.checked_add(len).is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(damaged(format!("piece {index} of the spool file: {len} bytes at {place}")));
    }
    Ok((Extent::new(offset, len), place))
}

fn path_of(head: &[u8]) -> PathBuf {
    let len = (word(head, offset_of!(SlotHead, path_len)) as usize).min(PATH);
    let start = offset_of!(SlotHead, path);
    PathBuf::from(std::ffi::OsStr::from_bytes(&head[start..start + len]))
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

pub(super) fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(value)
}

#[cfg(test)]
mod tests;

//! Putting into their files what killed processes left in their spool files.

use super::layout::{
    HEAD, Head, MAGIC, MOST_DATA, PAGE, PATH, PIECES, Piece, SLOT_HEAD, SlotHead, VERSION,
};
use super::{is_spool, lock, started};
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
/// Spool files of living processes are left alone, and so is one in which a write failed.
///
/// # Errors
/// If the directory cannot be listed. What fails in a spool file is told in the list.
pub fn recover(directory: &Path) -> Result<Vec<Recovered>> {
    // SAFETY: asks for a number.
    let uid = unsafe { libc::geteuid() };
    let failed = |error| Error::os("readdir", &error).with_path(&directory.display().to_string());
    let mut done = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_spool(&path, uid)
            && let Some(file) = open_abandoned(&path, uid)
        {
            finish(&file, &path, &mut done);
        }
    }
    Ok(done)
}

/// The spool file at `path`, locked, if its owner is dead.
fn open_abandoned(path: &Path, uid: u32) -> Option<File> {
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
        return (facts.len() == 0 && is_old(&facts)).then_some(file);
    }
    let pid = word32(&head, offset_of!(Head, pid));
    let alive = started(pid).is_some_and(|at| at == word(&head, offset_of!(Head, started)));
    (!alive && word(&head, offset_of!(Head, magic)) == MAGIC).then_some(file)
}

/// Whether nobody can be in the middle of making it.
fn is_old(facts: &std::fs::Metadata) -> bool {
    facts.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age.as_secs() > 60)
}

/// Writes what is in the spool file, and removes it if nothing failed.
fn finish(file: &File, spool: &Path, done: &mut Vec<Recovered>) {
    let before = done.len();
    let mut told = |path: PathBuf, bytes, error: Option<Error>| {
        done.push(Recovered { spool: spool.to_path_buf(), path, bytes, error });
    };
    if let Err(error) = each_slot(file, &mut |head, data| {
        let path = path_of(head);
        match store(file, head, data, &path) {
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
fn each_slot(file: &File, with: &mut dyn FnMut(&[u8], u64)) -> Result<()> {
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

/// Writes the pieces of one slot; how many bytes.
fn store(spool: &File, head: &[u8], data: u64, path: &Path) -> Result<u64> {
    let count = word32(head, offset_of!(SlotHead, count)) as usize;
    if count == 0 {
        return Ok(0);
    }
    let named = |error: Error| error.with_path(&path.display().to_string());
    let target = open_target(head, path).map_err(named)?;
    let (mut pieces, mut room) = (Vec::new(), word(head, offset_of!(SlotHead, room)));
    for index in 0..count {
        let (extent, place) = piece(head, index).map_err(named)?;
        room = room.checked_sub(extent.len).ok_or_else(|| {
            let text = format!("piece {index} of the spool file: more bytes than there is room");
            named(Error::new(ErrorClass::Io, text))
        })?;
        let mut run = vec![0; extent.len as usize];
        let read = spool.read_exact_at(&mut run, data + place);
        read.map_err(|error| named(Error::os("pread", &error)))?;
        pieces.push((extent.offset, run));
    }
    target.write(&pieces).map_err(named)?;
    Ok(pieces.iter().map(|(_, run)| run.len() as u64).sum())
}

/// What the bytes of a slot are written to.
enum Target {
    File(File),
    Container(Container),
}

impl Target {
    /// Writes pieces, of which later ones cover earlier ones.
    fn write(self, pieces: &[(u64, Vec<u8>)]) -> Result<()> {
        match self {
            Target::File(file) => {
                for (offset, run) in pieces {
                    let extent = Extent::new(*offset, run.len() as u64);
                    let written = file.write_all_at(run, *offset);
                    written.map_err(|error| Error::os("pwrite", &error).with_extent(extent))?;
                }
                Ok(())
            }
            Target::Container(container) => {
                let writer = container.writer()?;
                let pieces: Vec<_> = pieces.iter().map(|(at, run)| (*at, &run[..])).collect();
                writer.write_pieces(&pieces)?;
                writer.close()
            }
        }
    }
}

/// The file or container whose bytes they are: of the same name, and the same inode still.
fn open_target(head: &[u8], path: &Path) -> Result<Target> {
    let is_dir = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let mut how = File::options();
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let kind = if is_dir { libc::O_DIRECTORY } else { 0 };
    let file = how.read(is_dir).write(!is_dir).custom_flags(flags | kind).open(path);
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

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::super::Spool;
    use super::super::layout::SLOT_DATA;
    use super::*;

    /// A directory with a file, and the spool of a process that is dead, which had 2 pieces for it.
    fn abandoned() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        file.write_all_at(b"..........", 0).unwrap();
        let facts = file.metadata().unwrap();
        let mut spool = Spool::create(directory.path()).unwrap();
        let identity = [facts.dev(), facts.ino(), super::super::born(file.as_raw_fd())];
        let slot = spool.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA).unwrap();
        // SAFETY: the slot has room for five bytes.
        unsafe { slot.data().copy_from(b"abcde".as_ptr(), 5) };
        slot.push(0, 2, 3, 0);
        slot.push(1, 4, 2, 3);
        // Nobody else has this number: as if its owner were dead.
        let name = spool.path().to_path_buf();
        let pid = offset_of!(Head, pid) as u64;
        let bytes = File::options().write(true).open(&name).unwrap();
        bytes.write_all_at(&u32::MAX.to_ne_bytes(), pid).unwrap();
        drop(bytes);
        // SAFETY: the slot is used no more.
        unsafe { spool.disown() };
        (directory, path)
    }

    fn damage(directory: &Path, at: usize, with: u64) -> Vec<Recovered> {
        let spool = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
        let spool = spool.into_iter().find(|path: &PathBuf| !path.ends_with("file")).unwrap();
        let file = File::options().write(true).open(spool).unwrap();
        file.write_all_at(&with.to_ne_bytes(), at as u64).unwrap();
        drop(file);
        recovered(directory)
    }

    /// What is done about an abandoned spool. Another test of this process may be forking: until its child
    /// is another program, it has the lock of the spool, too.
    fn recovered(directory: &Path) -> Vec<Recovered> {
        for _ in 0..1000 {
            let done = recover(directory).unwrap();
            if !done.is_empty() {
                return done;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Vec::new()
    }

    #[test]
    fn of_pieces_that_overlap_the_later_holds_and_the_spool_is_gone() {
        let (directory, path) = abandoned();
        let done = recovered(directory.path());
        assert!(done.len() == 1 && done[0].error.is_none() && done[0].bytes == 5, "{done:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"..abde....");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_living_owner_keeps_its_spool() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::create(directory.path()).unwrap();
        assert!(recover(directory.path()).unwrap().is_empty() && spool.path().exists());
    }

    #[test]
    fn a_spool_can_be_made_while_others_look_for_abandoned_ones() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        let made = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !made.load(std::sync::atomic::Ordering::Relaxed) {
                        assert!(recover(directory).is_ok_and(|done| done.is_empty()));
                    }
                });
            }
            for _ in 0..300 {
                Spool::create(directory).expect("a spool").remove();
            }
            made.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn damaged_pieces_change_no_file_and_stay() {
        let pieces = HEAD + offset_of!(SlotHead, pieces);
        let count = HEAD + offset_of!(SlotHead, count);
        let damages = [
            (pieces + offset_of!(Piece, len), u64::MAX),
            // Alone it would fit.
            (pieces + offset_of!(Piece, len), SLOT_DATA as u64),
            (pieces + offset_of!(Piece, place), SLOT_DATA as u64),
            (pieces + offset_of!(Piece, offset), u64::MAX - 1),
            (count, 0xffff_ffff),
            (offset_of!(Head, version), 99),
            (HEAD + offset_of!(SlotHead, room), 4095),
            (HEAD + offset_of!(SlotHead, room), u64::MAX),
            (HEAD + offset_of!(SlotHead, inode), 1),
            (HEAD + offset_of!(SlotHead, born), 1),
            (HEAD + offset_of!(SlotHead, path_len), u64::MAX),
        ];
        for (at, with) in damages {
            let (directory, path) = abandoned();
            let done = damage(directory.path(), at, with);
            assert!(done.iter().any(|one| one.error.is_some()), "{at}: {done:?}");
            assert_eq!(std::fs::read(&path).unwrap().len(), 10, "{at}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "{at}");
        }
    }
}

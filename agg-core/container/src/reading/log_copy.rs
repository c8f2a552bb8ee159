//! Copies bytes of a log into a file: in the kernel where it can, which costs one copy instead of
//! two.

use crate::directory::Dir;
use crate::reading::descriptors::{Descriptors, read_failed, too_short};
use aggio_base::{Error, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes that are copied at a time where the kernel does not do it.
const ROOM: u64 = 1 << 20;

/// Bytes of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) id: u64,
    pub(crate) place: u64,
    pub(crate) len: u64,
}

/// Copies a part of a log to `to`, from `offset` on.
pub(crate) fn copy(
    dir: &Dir,
    files: &Descriptors,
    part: Part,
    to: &File,
    offset: u64,
) -> Result<()> {
    let log = files.get(dir, part.id)?;
    let done = in_kernel(&log, part, to, offset);
    let rest = Part { place: part.place + done, len: part.len - done, ..part };
    by_hand(dir, &log, rest, to, offset + done)
}

/// Copies in the kernel and returns the number of bytes. An error stops it without a report: the
/// copy through memory meets the same error and reports it.
fn in_kernel(log: &File, part: Part, to: &File, offset: u64) -> u64 {
    let mut done = 0;
    while done < part.len {
        let (mut place, mut there) =
            ((part.place + done) as libc::off64_t, (offset + done) as libc::off64_t);
        // The next call copies the bytes that do not fit into a `usize`.
        let len = usize::try_from(part.len - done).unwrap_or(usize::MAX);
        let (from, to) = (log.as_raw_fd(), to.as_raw_fd());
        // SAFETY: both offsets are `off64_t` of this function; no other memory is concerned.
        let count = unsafe { libc::copy_file_range(from, &mut place, to, &mut there, len, 0) };
        match u64::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ => break,
        }
    }
    done
}

/// Copies it through memory.
fn by_hand(dir: &Dir, log: &File, part: Part, to: &File, offset: u64) -> Result<()> {
    let mut room = Vec::new();
    let mut done = 0;
    while done < part.len {
        let (place, len) = (part.place + done, ROOM.min(part.len - done));
        room.resize(len as usize, 0);
        log.read_exact_at(&mut room, place).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => too_short(dir, part.id, place + len),
            _ => read_failed(dir, part.id, &error),
        })?;
        to.write_all_at(&room, offset + done).map_err(|error| Error::os("write", &error))?;
        done += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::file::container::Container;
    use crate::reading::reader::{Reader, Segment};
    use crate::tests::how;
    use aggio_base::{Extent, Result};
    use std::fs::File;
    use std::path::Path;

    /// More than is copied at a time, and no round number.
    const LEN: usize = (2 << 20) + 77;

    fn bytes() -> Vec<u8> {
        (0..LEN).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    /// The reader of a container with those bytes, and where they lie.
    fn stored(folder: &Path) -> (Reader, Segment) {
        let container = Container::create(&folder.join("file"), &how()).unwrap();
        let writer = container.writer().unwrap();
        writer.write_at(&bytes(), 1000).unwrap();
        writer.close().unwrap();
        let reader = container.reader().unwrap();
        let found = reader.segments(Extent::new(1000, LEN as u64)).unwrap();
        assert_eq!(found.len(), 1);
        (reader, found[0])
    }

    fn copied_to(folder: &Path) {
        let place = tempfile::tempdir().unwrap();
        let (reader, segment) = stored(place.path());
        let to = tempfile::tempfile_in(folder).unwrap();
        reader.copy(segment, &to, 13).unwrap();
        let mut found = vec![0xEE; LEN];
        std::os::unix::fs::FileExt::read_exact_at(&to, &mut found, 13).unwrap();
        assert!(found == bytes());
        assert_eq!(to.metadata().unwrap().len(), 13 + LEN as u64);
    }

    #[test]
    fn bytes_are_copied_to_a_file_of_the_same_file_system() {
        copied_to(&std::env::temp_dir());
    }

    #[test]
    fn bytes_are_copied_to_a_file_of_another_file_system() {
        copied_to(Path::new("/dev/shm"));
    }

    fn errno_of(result: Result<()>) -> i32 {
        result.unwrap_err().errno()
    }

    #[test]
    fn a_target_that_is_full_or_may_not_be_written_is_told() {
        let place = tempfile::tempdir().unwrap();
        let (reader, segment) = stored(place.path());
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(errno_of(reader.copy(segment, &full, 0)), libc::ENOSPC);
        let there = tempfile::NamedTempFile::new().unwrap();
        let read_only = File::open(there.path()).unwrap();
        assert_eq!(errno_of(reader.copy(segment, &read_only, 0)), libc::EBADF);
    }

    #[test]
    fn a_log_that_is_too_short_is_told() {
        let place = tempfile::tempdir().unwrap();
        let (reader, segment) = stored(place.path());
        let beyond = Segment { source: segment.source.map(|(id, at)| (id, at + 4096)), ..segment };
        let to = tempfile::tempfile().unwrap();
        let error = reader.copy(beyond, &to, 0).unwrap_err();
        assert!(error.to_string().contains("the log ends before"), "{error}");
    }

    #[test]
    fn a_hole_is_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let (reader, _) = stored(place.path());
        let hole = reader.segments(Extent::new(0, 1000)).unwrap()[0];
        assert_eq!(hole.source, None);
        let to = tempfile::tempfile().unwrap();
        reader.copy(hole, &to, 5).unwrap();
        assert_eq!(to.metadata().unwrap().len(), 0);
    }
}

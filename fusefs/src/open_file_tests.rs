//! Reading, writing and seeking in open files of each kind.

use super::*;
use crate::sets::OpenSets;
use crate::testing::{container, held, set};
use agg_core::blob::Verify;
use std::ffi::OsStr;
use tempfile::TempDir;

fn plain(folder: &TempDir, bytes: &[u8]) -> OpenFile {
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    OpenFile::Plain { file, id: 7, writes: true }
}

/// An open container; it is begun for reading, so that each write makes a log of its own.
fn blob(folder: &TempDir, bytes: &[u8]) -> OpenFile {
    let path = folder.path().join("container");
    container(&path, bytes);
    let blob = Arc::new(Blob::open(held(&path), Verify::Always).unwrap());
    OpenFile::Blob { blob, id: 7, writes: false }
}

fn content(open: &OpenFile) -> Vec<u8> {
    let mut buffer = [0; 64];
    let count = open.read(&mut buffer, 0).unwrap();
    buffer[..count].to_vec()
}

fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().as_ref().and_then(Errno::from_io_error)
}

fn passthrough() -> Passthrough {
    Passthrough::new(false)
}

#[test]
fn plain_files_and_containers_are_written_in_place_and_at_their_end() {
    let folder = tempfile::tempdir().unwrap();
    for open in [plain(&folder, b"0123"), blob(&folder, b"0123")] {
        open.write(2, b"ab", false).unwrap();
        open.write(0, b"end", true).unwrap();
        assert_eq!(content(&open), b"01abend");
        open.sync(true).unwrap();
        open.sync(false).unwrap();
        let mut buffer = [0; 2];
        assert_eq!(open.read(&mut buffer, 5).unwrap(), 2);
        assert_eq!(open.read(&mut buffer, 7).unwrap(), 0);
        let shown = open.shown(9).unwrap().unwrap();
        assert_eq!((shown.id(), shown.attributes.size), (9, 7));
    }
}

#[test]
fn room_is_allocated_with_and_without_a_new_size() {
    let folder = tempfile::tempdir().unwrap();
    let keep = FallocateFlags::KEEP_SIZE.bits().cast_signed();
    let punch = FallocateFlags::PUNCH_HOLE.bits().cast_signed();
    let collapse = FallocateFlags::COLLAPSE_RANGE.bits().cast_signed();
    for open in [plain(&folder, b"0123"), blob(&folder, b"0123")] {
        open.allocate(0, 8, keep).unwrap();
        assert_eq!(content(&open), b"0123");
        open.allocate(0, 8, 0).unwrap();
        assert_eq!(content(&open), b"0123\0\0\0\0");
        open.allocate(0, 2, keep | punch).unwrap();
        assert_eq!(content(&open), b"\0\x0023\0\0\0\0");
        assert_eq!(errno(open.allocate(0, 4, punch)), Some(Errno::OPNOTSUPP));
    }
    let open = blob(&tempfile::tempdir().unwrap(), b"0123");
    assert_eq!(errno(open.allocate(0, 4, collapse)), Some(Errno::OPNOTSUPP));
}

#[test]
fn data_and_holes_are_found_from_a_place_on() {
    let folder = tempfile::tempdir().unwrap();
    let passed = passthrough();
    for open in [plain(&folder, b"0123"), blob(&folder, b"0123")] {
        assert_eq!(open.seek(1, 3, &passed).unwrap(), 1);
        assert_eq!(open.seek(1, 4, &passed).unwrap(), 4);
        assert_eq!(errno(open.seek(4, 3, &passed)), Some(Errno::NXIO));
        assert_eq!(errno(open.seek(-1, 3, &passed)), Some(Errno::NXIO));
        assert_eq!(errno(open.seek(0, 0, &passed)), Some(Errno::INVAL));
    }
}

#[test]
fn a_file_that_is_written_without_passthrough_counts_as_data() {
    let folder = tempfile::tempdir().unwrap();
    let open = plain(&folder, b"");
    let OpenFile::Plain { file, .. } = &open else { return };
    file.set_len(1 << 20).unwrap();
    let passed = passthrough();
    assert_eq!(open.seek(0, 4, &passed).unwrap(), 0);
    let register: Option<fn() -> Result<fuser::BackingId>> = None;
    passed.begin(7, true, register);
    assert_eq!(open.seek(0, 4, &passed).unwrap(), 1 << 20);
    passed.end(7, true);
    assert_eq!(open.seek(0, 4, &passed).unwrap(), 0);
}

#[test]
fn a_set_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let sets = OpenSets::new(aggio_formats::Holes::Zero);
    let first = held(&folder.path().join("x.h5"));
    let set = sets.get(&first, &held(folder.path()), OsStr::new("x.h5")).unwrap();
    let open = OpenFile::Set { set };
    assert_eq!(content(&open), b"somedata");
    assert_eq!(errno(open.write(0, b"x", false)), Some(Errno::ROFS));
    assert_eq!(errno(open.allocate(0, 1, 0)), Some(Errno::ROFS));
    assert_eq!(open.seek(2, 4, &passthrough()).unwrap(), 8);
    assert_eq!(open.shown(9).unwrap().unwrap().attributes.size, 8);
    open.sync(false).unwrap();
}

#[test]
fn a_directory_has_entries_and_no_bytes() {
    let open = OpenFile::Directory(Listing::new(7));
    assert_eq!(open.listing().unwrap().id, 7);
    assert_eq!(errno(open.read(&mut [0], 0)), Some(Errno::ISDIR));
    assert_eq!(errno(open.write(0, b"x", true)), Some(Errno::ISDIR));
    assert_eq!(errno(open.seek(0, 3, &passthrough())), Some(Errno::ISDIR));
    assert!(open.shown(7).is_none());
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(errno(plain(&folder, b"").listing().map(drop)), Some(Errno::NOTDIR));
}

//! Files of memory: processes that can write to them, copies, memory that is given back.

use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

fn areas() -> Areas {
    let mut areas = Areas::new().unwrap();
    areas.make(1, 0o640, None).unwrap();
    areas
}

fn file(areas: &Areas, area: Area, write: bool) -> File {
    areas.open(area, true, write, false).unwrap().into()
}

#[test]
fn a_file_is_quiet_when_nobody_can_write_to_it() {
    let areas = areas();
    assert_eq!(areas.is_quiet(1), Quiet::Yes);
    let writer = file(&areas, 1, true);
    let copy = writer.try_clone().unwrap();
    assert_eq!(areas.is_quiet(1), Quiet::No);
    drop(writer);
    assert_eq!((areas.is_quiet(1), areas.closed()), (Quiet::No, vec![]));
    drop(copy);
    assert_eq!((areas.is_quiet(1), areas.closed()), (Quiet::Yes, vec![1]));
    let reader = file(&areas, 1, false);
    assert_eq!(areas.is_quiet(1), Quiet::Yes);
    assert!(reader.write_at(b"x", 0).is_err());
}

#[test]
fn a_mapping_that_can_be_stored_to_is_a_writer() {
    let areas = areas();
    let writer = file(&areas, 1, true);
    writer.set_len(4096).unwrap();
    let range = aggio_base::Extent::new(0, 4096);
    let mapping = os::Mapping::new(writer.as_raw_fd(), range, true).unwrap();
    drop(writer);
    assert_eq!(areas.is_quiet(1), Quiet::No);
    drop(mapping);
    assert_eq!((areas.is_quiet(1), areas.closed()), (Quiet::Yes, vec![1]));
}

#[test]
fn a_copy_has_bytes_and_holes_and_is_changed_by_any_write() {
    let mut areas = areas();
    let far = 3 * PIECE as u64 + 5;
    let first = file(&areas, 1, true);
    first.write_at(b"one", 7).unwrap();
    first.write_at(b"end", far).unwrap();
    areas.make(2, 0o600, Some(1)).unwrap();
    let [old, new] = [1, 2].map(|area| areas.stat(area, 1).unwrap());
    assert_eq!((old.size, old.blocks), (new.size, new.blocks));
    let mut bytes = [0; 3];
    file(&areas, 2, false).read_exact_at(&mut bytes, far).unwrap();
    assert_eq!(&bytes, b"end");
    assert!(!areas.is_changed(2, Some(1)));
    let writer = file(&areas, 2, true);
    let range = aggio_base::Extent::new(0, 4096);
    let mapping = os::Mapping::new(writer.as_raw_fd(), range, true).unwrap();
    // SAFETY: the byte is inside of the mapping, and nobody else has it.
    unsafe { mapping.place(9).write(b'!') };
    assert!(areas.is_changed(2, Some(1)), "a store through a mapping");
    areas.make(3, 0o600, Some(2)).unwrap();
    assert!(!areas.is_changed(3, Some(2)));
    file(&areas, 3, true).set_len(far).unwrap();
    assert!(areas.is_changed(3, Some(2)));
}

#[test]
fn memory_that_was_made_ready_is_given_back_where_nobody_wrote() {
    let page = os::page_size() as u64;
    let spare = owned(os::memory_file(c"test").unwrap());
    os::fallocate(spare.as_raw_fd(), Extent::new(0, 64 * page), true).unwrap();
    let mut areas = Areas::new().unwrap();
    let spare = Spare { bytes: 64 * page, ..Spare::from(spare) };
    areas.make_of(Some(spare), 1, 0o640, None).unwrap();
    areas.empty(1).unwrap();
    assert_eq!((areas.stat(1, 1).unwrap().size, areas.bytes()), (0, 64 * page));
    let open = file(&areas, 1, true);
    open.write_at(b"first", page - 2).unwrap();
    open.write_at(b"last", 9 * page + 7).unwrap();
    let before = areas.stat(1, 1).unwrap();
    areas.trim(1).unwrap();
    let after = areas.stat(1, 1).unwrap();
    assert_eq!((after.size, after.modified), (9 * page + 11, before.modified));
    assert_eq!(areas.bytes(), 3 * page, "the pages that were written");
    let mut bytes = vec![1; 9 * page as usize + 11];
    open.read_exact_at(&mut bytes, 0).unwrap();
    let at = page as usize - 2;
    assert_eq!((&bytes[at..at + 5], bytes.ends_with(b"last")), (&b"first"[..], true));
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 9);
}

#[test]
fn a_file_is_found_by_its_inode_and_given_up() {
    let mut areas = areas();
    let open = file(&areas, 1, true);
    open.write_at(b"x", 0).unwrap();
    let stat = areas.stat(1, 9).unwrap();
    assert_eq!((stat.mode & 0o777, stat.size, stat.generation), (0o640, 1, 9));
    assert_eq!(areas.find(stat.device, stat.inode), Some(1));
    assert!(areas.bytes() >= 4096);
    areas.empty(1).unwrap();
    assert_eq!((areas.stat(1, 9).unwrap().size, areas.bytes()), (0, 0));
    let remains = areas.take(1).unwrap();
    assert_eq!((remains.bytes, remains.is_dense), (0, true));
    assert!(areas.open(1, true, true, false).is_err() && areas.stat(1, 9).is_err());
    assert_eq!(areas.find(stat.device, stat.inode), None);
}

#[test]
fn files_with_huge_pages_are_as_others_and_keep_no_more_than_was_written() {
    let Ok(huge) = crate::huge_pages::Huge::new() else { return };
    let (page, spare) = (huge.page, Spare::from(huge.file().unwrap()));
    let mut areas = Areas::new().unwrap();
    areas.make_of(Some(Spare { slack: page, ..spare }), 1, 0o640, None).unwrap();
    let size = page + 5000;
    let writer = file(&areas, 1, true);
    writer.write_all_at(&vec![7; size as usize], 0).unwrap();
    assert_eq!((areas.is_quiet(1), areas.bytes()), (Quiet::No, 2 * page));
    drop(writer);
    assert_eq!((areas.is_quiet(1), areas.closed()), (Quiet::Yes, vec![1]));
    let before = areas.stat(1, 1).unwrap();
    areas.trim(1).unwrap();
    let after = areas.stat(1, 1).unwrap();
    assert_eq!((before.size, before.modified, before.mode), (size, after.modified, after.mode));
    assert_eq!((after.size, areas.bytes()), (size, size.next_multiple_of(4096)));
    let mut bytes = vec![0; size as usize];
    file(&areas, 1, false).read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    // Copies have pages of any kind.
    areas.make_of(Some(huge.file().unwrap().into()), 2, 0o640, Some(1)).unwrap();
    assert!(!areas.is_changed(2, Some(1)));
    assert!(areas.take(1).unwrap().is_dense);
}

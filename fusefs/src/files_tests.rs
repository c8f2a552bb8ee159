//! Opening and closing: handles, and data that the kernel keeps.

use super::*;
use crate::resolver::Resolver;
use crate::testing::{container, held, options, set};
use crate::tree::ROOT;
use std::ffi::OsStr;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

fn files() -> (TempDir, Tree, Files) {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::new(folder.path(), 64).unwrap();
    let files = Files::new(&options(folder.path()));
    (folder, tree, files)
}

fn look_up(tree: &Tree, name: &str) -> u64 {
    let directory = tree.get(ROOT).unwrap().fd;
    let seen = Resolver::new(None, false).find(&directory, OsStr::new(name)).unwrap();
    tree.remember(ROOT, OsStr::new(name), &seen, tree.wanted(&seen))
}

fn keeps(opened: &Opened) -> bool {
    opened.flags.contains(FopenFlags::FOPEN_KEEP_CACHE)
}

const READ: i32 = 0;
const APPEND: i32 = (OFlags::WRONLY.bits() | OFlags::APPEND.bits()).cast_signed();

#[test]
fn flags_say_whether_a_file_is_written() {
    assert!(!writes(READ) && writes(APPEND) && appends(APPEND));
    assert!(writes(OFlags::RDWR.bits().cast_signed()));
}

#[test]
fn the_kernel_keeps_data_of_a_plain_file_until_it_changes() {
    let (folder, tree, files) = files();
    let path = folder.path().join("file");
    let time = UNIX_EPOCH + Duration::from_secs(1000);
    let put = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    put(b"one");
    let id = look_up(&tree, "file");
    let open = || {
        let register = |_: &File| Err(rustix::io::Errno::OPNOTSUPP.into());
        let opened = files.open_plain(id, File::open(&path).unwrap(), &tree, register).unwrap();
        files.close(opened.handle);
        assert!(files.handles.get(opened.handle).is_err());
        keeps(&opened)
    };
    assert_eq!([open(), open()], [false, true]);
    put(b"three");
    assert_eq!([open(), open()], [false, true]);
}

#[test]
fn a_container_is_sealed_when_its_last_writer_closes_it() {
    let (folder, tree, files) = files();
    container(&folder.path().join("c"), b"");
    let id = look_up(&tree, "c");
    let fd = tree.get(id).unwrap().fd;
    let open = |flags| {
        let blob = files.containers.reserve(id, &fd).unwrap();
        files.open_container(id, blob, flags, &tree).unwrap()
    };
    let writer = open(APPEND);
    assert_eq!(writer.flags, FopenFlags::FOPEN_DIRECT_IO);
    files.handles.get(writer.handle).unwrap().write(0, b"bytes", true).unwrap();
    let reader = open(READ);
    assert!(!keeps(&reader));
    assert!(!files.containers.attributes(Some(id), &fd).unwrap().sealed);
    files.close(writer.handle);
    assert!(files.containers.attributes(Some(id), &fd).unwrap().sealed);
    files.close(reader.handle);
    assert!(files.containers.get(id).is_none());
    assert!(!keeps(&open(READ)) && keeps(&open(READ)));
    files.end_all();
    assert!(files.containers.get(id).is_none());
}

#[test]
fn a_container_that_cannot_be_opened_is_released() {
    let (folder, tree, files) = files();
    let path = folder.path().join("c");
    container(&path, b"");
    let id = look_up(&tree, "c");
    let blob = files.containers.reserve(id, &held(&path)).unwrap();
    // Without its files no log can be made, and nothing can be read.
    std::fs::remove_dir_all(&path).unwrap();
    assert!(files.open_container(id, blob, APPEND, &tree).is_err());
    assert!(files.containers.get(id).is_none());
}

#[test]
fn a_set_is_open_until_it_is_closed() {
    let (folder, tree, files) = files();
    set(folder.path());
    let id = look_up(&tree, "x.h5");
    let first = tree.get(id).unwrap().fd;
    let set = files.sets.get(&first, &held(folder.path()), OsStr::new("x.h5")).unwrap();
    let opened = files.open_set(id, set, &tree);
    let mut buffer = [0; 8];
    assert_eq!(files.handles.get(opened.handle).unwrap().read(&mut buffer, 0).unwrap(), 8);
    files.close(opened.handle);
    assert!(files.handles.get(opened.handle).is_err());
}

//! Merging, splitting, names, permissions.

use super::super::*;
use super::how;
use super::model::{Run, Step, compare};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

const MERGE: Merge<'static> = Merge { threads: 2, verify: true, replace: false, progress: None };

/// A container with some content, sealed, and what it holds.
pub(super) fn sample(path: &Path) -> Vec<u8> {
    let mut run = Run::new(path);
    for step in [
        Step::Strided(0, 0, 10, 11, 10),
        Step::Strided(1, 10, 10, 11, 10),
        Step::Pieces(2, vec![(3, 9), (100, 30), (90, 20)]),
        Step::Truncate(0, 180),
        Step::Append(1, 20),
        Step::Punch(2, 50, 30),
        Step::Write(0, 400, 50),
    ] {
        run.step(&step);
    }
    run.close();
    run.model
}

#[test]
fn a_container_merged_and_split_is_the_same_file() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bytes = sample(&path("blob"));
    Container::open(&path("blob")).unwrap().set_mode(0o640).unwrap();
    let merged = merge(&path("blob"), &path("plain"), &MERGE).unwrap();
    assert_eq!((merged.size, merged.resumed), (bytes.len() as u64, 0));
    assert_eq!(std::fs::read(path("plain")).unwrap(), bytes);
    assert_eq!(std::fs::metadata(path("plain")).unwrap().mode() & 0o7777, 0o640);
    let how = Split { frame: 64, data_crc: true, verify: true, progress: None };
    split(&path("plain"), &path("again"), &how).unwrap();
    let again = Container::open(&path("again")).unwrap();
    compare(&again.reader().unwrap(), &bytes);
    assert_eq!(again.attributes().unwrap().mode, 0o640);
    assert_eq!(
        check(&path("again"), &Check { data: true, ..Check::default() }).unwrap().exit_code(),
        0
    );
    assert_eq!(split(&path("plain"), &path("again"), &how).unwrap_err().errno(), libc::EEXIST);
    assert_eq!(merge(&path("blob"), &path("plain"), &MERGE).unwrap_err().errno(), libc::EEXIST);
    let names = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names, 3, "nothing else stays");
}

#[test]
fn an_interrupted_merge_goes_on_and_wrong_bytes_of_it_are_found() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let container = Container::create(&path("blob"), &how()).unwrap();
    let writer = container.writer().unwrap();
    let bytes: Vec<u8> = (0..20 << 20).map(|i| (i % 251) as u8).collect();
    writer.write_at(&bytes, 0).unwrap();
    writer.close().unwrap();
    // The name is taken only when everything else was done.
    std::fs::create_dir(path("plain")).unwrap();
    merge(&path("blob"), &path("plain"), &Merge { replace: true, ..MERGE }).unwrap_err();
    std::fs::remove_dir(path("plain")).unwrap();
    let partial = path(".plain.aggio-merging");
    std::fs::write(&partial, vec![9; 20 << 20]).unwrap();
    let merged = merge(&path("blob"), &path("plain"), &MERGE).unwrap();
    assert_eq!(merged.resumed, 20 << 20);
    assert!(std::fs::read(path("plain")).unwrap() == bytes);
}

#[test]
fn a_container_is_renamed_and_removed_as_a_file_is() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bytes = sample(&path("a"));
    let inode = Container::open(&path("a")).unwrap().attributes().unwrap().inode;
    rename(&path("a"), &path("b")).unwrap();
    assert!(!path("a").exists());
    std::fs::write(path("file"), b"x").unwrap();
    symlink("file", path("link")).unwrap();
    Container::create(&path("other"), &how()).unwrap();
    let mut from = "b";
    for to in ["file", "link", "other"] {
        rename(&path(from), &path(to)).unwrap();
        assert!(!path(from).exists() && is_container(&path(to)), "{to}");
        from = to;
    }
    let container = Container::open(&path("other")).unwrap();
    assert_eq!(container.attributes().unwrap().inode, inode);
    compare(&container.reader().unwrap(), &bytes);
    std::fs::create_dir(path("folder")).unwrap();
    assert_eq!(rename(&path("other"), &path("folder")).unwrap_err().errno(), libc::EISDIR);
    assert_eq!(rename(&path("none"), &path("x")).unwrap_err().errno(), libc::ENOENT);
    rename(&path("other"), &path("other")).unwrap();
    remove(&path("other")).unwrap();
    assert!(remove(&path("folder")).is_err() && remove(&path("other")).is_err());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn no_part_has_permissions_that_the_file_does_not_have() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    sample(&path);
    let container = Container::open(&path).unwrap();
    for mode in [0o600, 0o664, 0o444, 0o640, 0o666] {
        container.set_mode(mode).unwrap();
        assert_eq!(container.attributes().unwrap().mode, mode);
        for entry in std::fs::read_dir(&path).unwrap() {
            let part = entry.unwrap().metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(part & !0o600, mode & 0o066, "{mode:o}");
        }
        let dir = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(dir & 0o066, mode & 0o066);
    }
}

#[test]
fn times_that_were_set_stay_until_somebody_writes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    sample(&path);
    let container = Container::open(&path).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000, 5);
    container.set_times(Some(time), Some(time)).unwrap();
    container.set_mode(0o600).unwrap();
    let attributes = container.attributes().unwrap();
    assert_eq!((attributes.atime, attributes.mtime), (time, time));
    let writer = container.writer().unwrap();
    writer.write_at(b"x", 0).unwrap();
    writer.close().unwrap();
    assert!(container.attributes().unwrap().mtime > time);
}

#[test]
fn what_is_no_container_is_refused_with_the_right_number() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    sample(&path("blob"));
    symlink("blob", path("link")).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::write(path("file"), b"format aggio-blob 1\n").unwrap();
    assert!(is_container(&path("blob")));
    for (name, errno) in [
        ("link", libc::ENOTDIR),
        ("folder", libc::EINVAL),
        ("file", libc::ENOTDIR),
        ("no", libc::ENOENT),
    ] {
        assert!(!is_container(&path(name)), "{name}");
        assert_eq!(Container::open(&path(name)).unwrap_err().errno(), errno, "{name}");
    }
    let exclusive = Create { exclusive: true, ..how() };
    assert_eq!(Container::create(&path("blob"), &exclusive).unwrap_err().errno(), libc::EEXIST);
    assert_eq!(Container::create(&path("no/blob"), &how()).unwrap_err().errno(), libc::ENOENT);
}

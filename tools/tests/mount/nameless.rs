//! Containers that are open through a mount while their names go, here or in another process: as
//! with ordinary files the name goes at once, and the file lives until the last close, wherever
//! that is.

use crate::mounted::{Mount, aggio, container, directory, pattern, wait_until};
use agg_core::blob::{self, Container};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn entries(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn whole(file: &File, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The action of another process on the name, in the backing directory.
type Act = fn(&Path);

const REMOVE: Act = |path| blob::remove(path).unwrap();
const REPLACE: Act = |path| {
    let other = path.with_file_name("other");
    container(&other, b"another", 3);
    blob::rename(&other, path).unwrap();
    REMOVE(path);
};

fn recover(path: &Path) {
    let said = aggio(&["recover", path.to_str().unwrap()]);
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{words}");
}

#[test]
fn files_whose_names_only_begin_like_ours_are_users_own() {
    let directory = directory();
    let names = [".aggio-notes", ".aggio-gone-notes", ".aggio-removed-notes"];
    std::fs::write(directory.path().join("backing").join(names[0]), b"mine").unwrap();
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    for name in &names[1..] {
        std::fs::write(mount.path(name), b"mine").unwrap();
    }
    let mut shown = entries(&mount.path(""));
    shown.sort();
    assert_eq!(shown, [names[1], names[0], names[2]]);
    for name in names {
        assert_eq!(std::fs::read(mount.path(name)).unwrap(), b"mine", "{name}");
        std::fs::remove_file(mount.path(name)).unwrap();
    }
    assert!(entries(&mount.backing("")).is_empty());
}

#[test]
fn what_another_process_removes_lives_until_it_is_closed_here() {
    let data = pattern(300_000);
    for act in [REMOVE, REPLACE] {
        for writes in [false, true] {
            let directory = directory();
            container(&directory.path().join("backing/blob"), &data, 1000);
            let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
            let open = File::options().read(true).write(writes).open(mount.path("blob")).unwrap();
            act(&mount.backing("blob"));
            recover(&mount.backing(""));
            assert!(entries(&mount.backing("")).iter().all(|name| blob::is_removed(name.as_ref())));
            assert_eq!(whole(&open, data.len()), data);
            wait_until("it has no name", || open.metadata().unwrap().nlink() == 0);
            if writes {
                open.write_all_at(b"more", data.len() as u64).unwrap();
                open.sync_all().unwrap();
                assert_eq!(whole(&open, data.len() + 4)[data.len()..], *b"more");
            }
            drop(open);
            wait_until("the last close removes it", || entries(&mount.backing("")).is_empty());
            assert_eq!(mount.log(), "");
            mount.end();
        }
    }
}

#[test]
fn what_is_removed_below_the_mount_lives_until_another_process_closes_it() {
    let data = pattern(100_000);
    let directory = directory();
    container(&directory.path().join("backing/blob"), &data, 1000);
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    let other = Container::open(&mount.backing("blob")).unwrap();
    let hold = other.hold().unwrap().unwrap();
    let open = File::open(mount.path("blob")).unwrap();
    std::fs::remove_file(mount.path("blob")).unwrap();
    drop(open);
    recover(&mount.backing(""));
    let mut bytes = vec![0; data.len()];
    other.reader().unwrap().read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, data);
    // The kernel sends the last close some time later.
    mount.end();
    other.release(hold).unwrap();
    assert_eq!(entries(&directory.path().join("backing")), [""; 0]);
}

#[test]
fn a_directory_with_nothing_but_nameless_containers_can_be_removed_and_replaced() {
    let data = pattern(5000);
    let directory = directory();
    let Some(mount) = Mount::of(&directory, &["--rw", "--new-files=container"]) else { return };
    for replaces in [false, true] {
        std::fs::create_dir(mount.path("folder")).unwrap();
        std::fs::write(mount.path("folder/blob"), &data).unwrap();
        let open = File::open(mount.path("folder/blob")).unwrap();
        std::fs::remove_file(mount.path("folder/blob")).unwrap();
        if replaces {
            std::fs::create_dir(mount.path("new")).unwrap();
            std::fs::rename(mount.path("new"), mount.path("folder")).unwrap();
        }
        std::fs::remove_dir(mount.path("folder")).unwrap();
        assert_eq!(entries(&mount.path("")), [""; 0]);
        assert_eq!(whole(&open, data.len()), data);
        drop(open);
        wait_until("nothing is left", || entries(&mount.backing("")).is_empty());
    }
    std::fs::create_dir(mount.path("folder")).unwrap();
    for name in ["folder/blob", "folder/other"] {
        std::fs::write(mount.path(name), &data).unwrap();
    }
    let open = File::open(mount.path("folder/blob")).unwrap();
    std::fs::remove_file(mount.path("folder/blob")).unwrap();
    let refused = std::fs::remove_dir(mount.path("folder")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    drop(open);
    mount.end();
}

#[test]
fn a_mount_that_covers_its_own_directory_removes_what_has_lost_its_name() {
    let directory = directory();
    container(&directory.path().join("backing/blob"), b"bytes", 2);
    let Some(mount) = Mount::at(&directory, directory.path(), &["--rw"]) else { return };
    let open = File::open(mount.path("blob")).unwrap();
    std::fs::remove_file(mount.path("blob")).unwrap();
    assert_eq!(whole(&open, 5), b"bytes");
    drop(open);
    mount.end();
    assert_eq!(entries(&directory.path().join("backing")), [""; 0]);
}

#[test]
fn what_cannot_be_removed_at_the_last_close_is_told() {
    let directory = directory();
    container(&directory.path().join("backing/blob"), b"bytes", 2);
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    let open = File::open(mount.path("blob")).unwrap();
    std::fs::remove_file(mount.path("blob")).unwrap();
    let hidden = mount.backing(&entries(&mount.backing(""))[0]);
    std::fs::create_dir(hidden.join("strange")).unwrap();
    drop(open);
    wait_until("it is told", || mount.log().contains("not removed"));
    std::fs::remove_dir(hidden.join("strange")).unwrap();
    mount.end();
    recover(&directory.path().join("backing"));
    assert_eq!(entries(&directory.path().join("backing")), [""; 0]);
}

//! Containers on a file system that supports only the plain `rename`, as NFS does.

use crate::mounted::Mount;
use agg_core::blob::{Container, Create, is_container, rename};
use std::path::Path;
use std::sync::Barrier;

const HOW: Create = Create { mode: 0o600, exclusive: false, data_crc: true };

fn write(path: &Path, bytes: &[u8]) {
    let writer = Container::create(path, &HOW).and_then(|it| it.writer()).unwrap();
    writer.write_at(bytes, 0).unwrap();
    writer.close().unwrap();
}

fn content(path: &Path) -> Vec<u8> {
    let reader = Container::open(path).and_then(|it| it.reader()).unwrap();
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// All names in the directory, including hidden ones.
fn names(mount: &Mount) -> Vec<String> {
    let entries = std::fs::read_dir(mount.backing("")).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|it| it.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn many_make_one_container_at_the_same_time() {
    let Some(mount) = Mount::start(&[]) else { return };
    for round in 0..8 {
        let (path, start) = (mount.path(&format!("c{round}")), Barrier::new(8));
        std::thread::scope(|scope| {
            for index in 0..8_u8 {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    let writer = Container::create(path, &HOW).and_then(|it| it.writer()).unwrap();
                    writer.write_at(&[index + 1; 100], u64::from(index) * 100).unwrap();
                    writer.close().unwrap();
                });
            }
        });
        let wanted: Vec<u8> = (1..=8).flat_map(|index| [index; 100]).collect();
        assert_eq!(content(&path), wanted);
        assert_eq!(names(&mount).len(), round + 1, "{:?}", names(&mount));
    }
}

#[test]
fn a_container_takes_the_name_of_another_of_a_file_and_of_nothing() {
    let Some(mount) = Mount::start(&[]) else { return };
    let (a, b, plain) = (mount.path("a"), mount.path("b"), mount.path("plain"));
    write(&a, b"new");
    write(&b, b"old and longer");
    rename(&a, &b).unwrap();
    assert_eq!((content(&b).as_slice(), names(&mount)), (&b"new"[..], vec!["b".to_owned()]));
    std::fs::write(&plain, "an ordinary file").unwrap();
    rename(&b, &plain).unwrap();
    assert!(is_container(&plain));
    rename(&plain, &a).unwrap();
    assert_eq!((content(&a).as_slice(), names(&mount)), (&b"new"[..], vec!["a".to_owned()]));
}

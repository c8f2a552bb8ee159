//! Logs that wait in a directory of the node: reading them, draining them, and files that are never
//! taken for one.

use crate::blob::*;
use crate::directory::dir::Dir;
use crate::directory::part_names::log_name;
use crate::tests::how;
use aggio_base::Result;
use std::path::{Path, PathBuf};

/// A container with logs that wait, and their directory.
struct Scene {
    _place: tempfile::TempDir,
    path: PathBuf,
    stage: PathBuf,
    container: Container,
}

impl Scene {
    fn new() -> Self {
        Self::with(u64::MAX)
    }

    fn with(limit: u64) -> Self {
        let place = tempfile::tempdir().unwrap();
        let [path, stage] = ["file", "stage"].map(|name| place.path().join(name));
        std::fs::create_dir(&stage).unwrap();
        let container = Container::create(&path, &how()).unwrap();
        container.stage_logs(&stage, limit);
        Self { _place: place, path, stage, container }
    }

    /// A writer that has written these bytes.
    fn writer(&self, bytes: &[u8]) -> Writer {
        let writer = self.container.writer().unwrap();
        writer.write_at(bytes, 0).unwrap();
        writer
    }

    fn waiting(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.stage).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Whether the log is in the container.
    fn is_there(&self, id: u64) -> bool {
        self.path.join(log_name(id)).symlink_metadata().unwrap().is_file()
    }
}

/// The content of the file, by a new reader.
fn content(path: &Path) -> Result<Vec<u8>> {
    read(&Container::open(path)?.reader()?)
}

fn read(reader: &Reader) -> Result<Vec<u8>> {
    reader.refresh()?;
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[test]
fn what_waits_is_read_as_if_it_were_there_and_goes_with_the_container() {
    let scene = Scene::new();
    let writer = scene.writer(b"waits");
    assert!(!scene.is_there(writer.log_id().unwrap()));
    assert_eq!(scene.waiting().len(), 1);
    assert_eq!(content(&scene.path).unwrap(), b"waits");
    writer.close().unwrap();
    assert_eq!(content(&scene.path).unwrap(), b"waits", "sealed");
    remove(&scene.path).unwrap();
    assert!(scene.waiting().is_empty());
}

#[test]
fn what_is_synchronised_is_in_the_container_and_readers_follow() {
    let scene = Scene::new();
    let writer = scene.writer(b"first");
    let reader = scene.container.reader().unwrap();
    assert_eq!(read(&reader).unwrap(), b"first");
    writer.sync().unwrap();
    assert!(scene.is_there(writer.log_id().unwrap()) && scene.waiting().is_empty());
    writer.write_at(b"second", 0).unwrap();
    assert_eq!(read(&reader).unwrap(), b"second");
    writer.close().unwrap();
    assert_eq!(read(&reader).unwrap(), b"second");
    assert_eq!(content(&scene.path).unwrap(), b"second");
}

#[test]
fn a_log_waits_until_it_has_its_limit_or_there_is_no_room() {
    let scene = Scene::with(200);
    let writer = scene.writer(&[1; 100]);
    assert_eq!(scene.waiting().len(), 1);
    writer.write_at(&[2; 100], 100).unwrap();
    assert!(scene.waiting().is_empty());
    writer.close().unwrap();
    let missing = Scene::new();
    std::fs::remove_dir(&missing.stage).unwrap();
    let writer = missing.writer(b"straight");
    assert!(missing.is_there(writer.log_id().unwrap()));
    writer.close().unwrap();
    assert_eq!(content(&missing.path).unwrap(), b"straight");
}

#[test]
fn nobody_drains_what_somebody_writes() {
    let scene = Scene::new();
    let writer = scene.writer(b"written");
    assert_eq!(drain(&scene.path).unwrap_err().errno(), libc::EBUSY);
    assert_eq!(scene.waiting().len(), 1);
    writer.write_at(b"W", 0).unwrap();
    writer.abandon();
    assert_eq!(drain(&scene.path).unwrap(), 1);
    assert!(scene.waiting().is_empty());
    assert_eq!(content(&scene.path).unwrap(), b"Written");
    assert_eq!(drain(&scene.path).unwrap(), 0);
    let names = Dir::open(&scene.path).unwrap().names().unwrap();
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
}

#[test]
fn what_nobody_writes_is_drained_beside_what_somebody_writes() {
    let scene = Scene::new();
    let (ended, writer) = (scene.writer(b"ended"), scene.writer(b"write"));
    let (left, written) = (ended.log_id().unwrap(), writer.log_id().unwrap());
    ended.abandon();
    assert_eq!(drain(&scene.path).unwrap_err().errno(), libc::EBUSY);
    assert!(scene.is_there(left) && !scene.is_there(written));
    writer.close().unwrap();
    assert_eq!(drain(&scene.path).unwrap(), 1);
    assert_eq!(content(&scene.path).unwrap(), b"write");
}

#[test]
fn what_a_killed_writer_left_waiting_is_drained_by_recovery() {
    let scene = Scene::new();
    scene.writer(b"killed").abandon();
    let recovered = recover(&scene.path).unwrap();
    assert!(recovered.done.contains(&"logs moved into the container: 1".to_owned()));
    assert!(scene.waiting().is_empty());
    assert_eq!(content(&scene.path).unwrap(), b"killed");
}

#[test]
fn what_waits_where_it_is_not_found_is_an_error_and_not_nothing() {
    for seals in [false, true] {
        let scene = Scene::new();
        let writer = scene.writer(b"away");
        if seals {
            writer.close().unwrap()
        } else {
            writer.abandon()
        }
        let waiting = scene.waiting().remove(0);
        std::fs::remove_file(&waiting).unwrap();
        let errors = [
            content(&scene.path).unwrap_err(),
            drain(&scene.path).unwrap_err(),
            recover(&scene.path).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.errno(), libc::EIO, "{error}");
            assert!(error.to_string().contains(waiting.to_str().unwrap()), "{error}");
        }
        // It can be removed all the same.
        remove(&scene.path).unwrap();
    }
}

#[test]
fn links_in_a_copy_lead_to_no_log() {
    for seals in [false, true] {
        let scene = Scene::new();
        let writer = scene.writer(b"original");
        if seals {
            writer.close().unwrap()
        } else {
            writer.abandon()
        }
        let copy = scene.path.with_file_name("copy");
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&scene.path).unwrap() {
            let from = entry.unwrap().path();
            let to = copy.join(from.file_name().unwrap());
            match std::fs::read_link(&from) {
                Ok(target) => std::os::unix::fs::symlink(target, to).unwrap(),
                Err(_) => std::fs::copy(from, to).map(drop).unwrap(),
            }
        }
        content(&copy).unwrap_err();
        recover(&copy).unwrap_err();
        remove(&copy).unwrap();
        assert_eq!(content(&scene.path).unwrap(), b"original");
    }
}

#[test]
fn a_link_to_something_else_is_neither_read_nor_removed() {
    let scene = Scene::new();
    let writer = scene.writer(b"file");
    let id = writer.log_id().unwrap();
    writer.close().unwrap();
    let target = scene.waiting().remove(0);
    let precious = scene.stage.join("precious");
    std::fs::write(&precious, "precious").unwrap();
    // With a second name, and with another one than staged logs have.
    std::fs::hard_link(&target, scene.stage.join("second")).unwrap();
    content(&scene.path).unwrap_err();
    remove(&scene.path).unwrap_err();
    std::fs::remove_file(scene.stage.join("second")).unwrap();
    let link = scene.path.join(log_name(id));
    if let Ok(link) = std::fs::symlink_metadata(&link).map(|_| link) {
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        content(&scene.path).unwrap_err();
        remove(&scene.path).unwrap();
    }
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

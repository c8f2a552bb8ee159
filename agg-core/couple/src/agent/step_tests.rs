//! Answers to readers about records while their file is being written.

use super::tests::{FILE, Scene};
use crate::netcdf_header::tests::header;
use crate::protocol::{Before, Reply, Request};
use crate::registry::{Ask, Options};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the first record begins; each of its two variables has a page.
const BEGIN: u64 = 4096;
const SHORTS: [u64; 2] = [2048, 2048];

fn open(write: bool, now: bool) -> Request {
    let options = Options { at_step: true, records_now: now, ..Options::default() };
    let path = FILE.to_vec();
    let ask = Ask { path, write, create: write, truncate: write, options, ..Ask::default() };
    Request::Open { ask, read: !write, append: false, blocking: true, parts: false, mode: 0o600 }
}

struct Written {
    scene: Scene,
    handle: u64,
    file: File,
}

impl Written {
    /// A file that announces a record without any bytes.
    fn new() -> Self {
        let mut scene = Scene::with(&[1, 2]);
        let (Reply::Opened(handle, _), Some(fd)) = scene.call(1, open(true, false)) else {
            panic!()
        };
        let mut written = Self { scene, handle, file: fd.into() };
        written.announce(1, &SHORTS, Before::All);
        written
    }

    fn announce(&mut self, records: u64, shorts: &[u64], before: Before) {
        self.file.write_all_at(&header(1, records, shorts, BEGIN), 0).unwrap();
        assert_eq!(self.scene.call(1, Request::Announce(self.handle, before)).0, Reply::Done);
    }

    fn write(&mut self, record: u64, variables: std::ops::Range<u64>) {
        for variable in variables {
            self.file.write_all_at(&[7; 4096], BEGIN + 8192 * record + 4096 * variable).unwrap();
        }
    }

    fn read(&mut self, now: bool) -> u64 {
        match self.scene.call(2, open(false, now)) {
            (Reply::Opened(handle, 1), Some(_)) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn records(&mut self, reader: u64, told: u64) -> Reply {
        self.scene.call(2, Request::Records(reader, told)).0
    }

    fn reach(&mut self, reader: u64) -> Reply {
        self.scene.call(2, Request::Reach(reader, u64::MAX)).0
    }
}

fn some(records: u64) -> Reply {
    Reply::Records(Some((records, 4)))
}

#[test]
fn a_reader_opens_when_the_header_announces_a_record_and_not_before() {
    let mut scene = Scene::with(&[1, 2]);
    let (Reply::Opened(handle, _), Some(fd)) = scene.call(1, open(true, false)) else { panic!() };
    let (file, whole) = (File::from(fd), header(1, 1, &SHORTS, BEGIN));
    scene.agent.receive(2, open(false, false));
    for bytes in [&whole[..40], &header(1, 0, &SHORTS[..1], BEGIN), &header(1, 0, &SHORTS, BEGIN)] {
        file.write_all_at(bytes, 0).unwrap();
        assert_eq!(scene.call(1, Request::Announce(handle, Before::All)).0, Reply::Done);
        assert!(scene.ends[&2].receive(false).is_err(), "it waits");
    }
    file.write_all_at(&whole, 0).unwrap();
    assert_eq!(scene.call(1, Request::Announce(handle, Before::All)).0, Reply::Done);
    let (message, fd) = scene.ends[&2].receive(false).unwrap().unwrap();
    assert!(matches!(Reply::decode(&message).unwrap(), Reply::Opened(_, 1)) && fd.is_some());
}

#[test]
fn records_are_told_that_are_announced_and_there() {
    let mut written = Written::new();
    let reader = written.read(true);
    assert_eq!(written.records(reader, 0), some(0));
    written.write(0, 0..2);
    assert_eq!(written.records(reader, 0), some(1));
    written.write(1, 0..0);
    written.announce(3, &SHORTS, Before::All);
    written.write(2, 0..2);
    assert_eq!(written.records(reader, 0), some(1), "the second one is not there");
    written.write(1, 0..1);
    assert_eq!(written.records(reader, 0), some(1), "nor is all of it");
    written.write(1, 1..2);
    assert_eq!(written.records(reader, 0), some(3));
    assert_eq!(written.reach(reader), some(3));
}

#[test]
fn a_record_that_its_first_variable_announces_waits_for_the_next_one_or_for_a_sync() {
    let mut written = Written::new();
    let reader = written.read(true);
    written.write(0, 0..2);
    assert_eq!(written.records(reader, 0), some(1));
    written.write(1, 0..2);
    written.announce(2, &SHORTS, Before::Variable);
    assert_eq!(written.records(reader, 0), some(1));
    written.write(2, 0..2);
    written.announce(3, &SHORTS, Before::Others);
    assert_eq!(written.records(reader, 0), some(2));
    let handle = written.handle;
    assert_eq!(written.scene.call(1, Request::Sync(handle)).0, Reply::Done);
    assert_eq!(written.records(reader, 0), some(3));
}

#[test]
fn a_reader_that_asks_again_waits_for_more_records_or_for_the_end() {
    let mut written = Written::new();
    let reader = written.read(false);
    assert_eq!(written.records(reader, 0), some(0));
    let answer = |written: &Written| match written.scene.ends[&2].receive(false) {
        Ok(Some((message, _))) => Some(Reply::decode(&message).unwrap()),
        _ => None,
    };
    written.scene.agent.receive(2, Request::Records(reader, 1));
    assert_eq!(answer(&written), None);
    written.write(0, 0..2);
    written.announce(1, &SHORTS, Before::All);
    assert_eq!(answer(&written), Some(some(1)));
    written.scene.agent.receive(2, Request::Records(reader, 2));
    assert_eq!(answer(&written), None);
    let Written { mut scene, handle, file, .. } = written;
    drop(file);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    let (message, _) = scene.ends[&2].receive(false).unwrap().unwrap();
    assert_eq!(Reply::decode(&message).unwrap(), Reply::Records(None));
}

#[test]
fn a_reader_whose_header_changed_or_whose_writer_died_gets_an_error() {
    let mut written = Written::new();
    let reader = written.read(true);
    assert_eq!(written.records(reader, 0), some(0));
    written.announce(1, &[2048], Before::All);
    let Reply::Failed(libc::EIO, text) = written.records(reader, 0) else { panic!() };
    assert!(text.contains("changed the header"), "{text}");
    assert!(matches!(written.reach(reader), Reply::Failed(libc::EIO, _)));
    assert!(written.scene.call(2, Request::Close(reader, 0)).0 == Reply::Done);
    written.scene.agent.receive(2, open(false, true));
    assert!(written.scene.ends[&2].receive(false).is_err(), "it waits for the whole file");

    let mut written = Written::new();
    let reader = written.read(false);
    assert_eq!(written.records(reader, 0), some(0));
    written.scene.agent.receive(2, Request::Records(reader, 1));
    written.scene.agent.owner.life.own.registry.end(1, false);
    written.scene.agent.settle();
    let (message, _) = written.scene.ends[&2].receive(false).unwrap().unwrap();
    assert!(matches!(Reply::decode(&message).unwrap(), Reply::Failed(libc::EIO, _)));
    assert!(matches!(written.reach(reader), Reply::Failed(libc::EIO, _)));
}

#[test]
fn a_reader_of_a_part_opens_the_same_generation_again() {
    let mut written = Written::new();
    for _ in 0..2 {
        let reader = written.read(true);
        assert_eq!(written.scene.call(2, Request::Close(reader, 1 << 20)).0, Reply::Done);
    }
    let Written { mut scene, handle, file, .. } = written;
    drop(file);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    let (Reply::Opened(reader, 1), Some(_)) = scene.call(2, open(false, true)) else { panic!() };
    assert_eq!(scene.call(2, Request::Close(reader, 1 << 20)).0, Reply::Done);
    scene.agent.receive(2, open(false, true));
    assert!(scene.ends[&2].receive(false).is_err(), "it has read all of it");
}

#[test]
fn a_reader_that_was_not_shown_the_end_opens_the_same_generation_again() {
    let mut written = Written::new();
    let reader = written.read(true);
    assert_eq!(written.records(reader, 0), some(0));
    let Written { mut scene, handle, file, .. } = written;
    drop(file);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    let renewed = scene.call(2, Request::Reach(reader, u64::MAX)).0;
    assert_eq!(renewed, Reply::Whole, "MPI_File_sync gets the bytes, and shows nothing");
    assert_eq!(scene.call(2, Request::Close(reader, 1 << 20)).0, Reply::Done);
    let (Reply::Opened(reader, 1), Some(_)) = scene.call(2, open(false, true)) else { panic!() };
    assert_eq!(scene.call(2, Request::Records(reader, 0)).0, Reply::Records(None));
    assert_eq!(scene.call(2, Request::Close(reader, 1 << 20)).0, Reply::Done);
    scene.agent.receive(2, open(false, true));
    assert!(scene.ends[&2].receive(false).is_err(), "it has read all of it");
}

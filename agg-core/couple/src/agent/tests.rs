//! Requests of programs and the answers to them, without other processes.

use super::clients::ClientProcess;
use super::*;
use crate::protocol::{Packets, Reply, Request, pair};
use crate::registry::{Ask, Options, Process, State, Stored, Who};
use crate::tests::apart::{self, Sleeper};
use aggio_config::settings::couple::Persist;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

pub(super) const FILE: &[u8] = b"/d/f";

/// An agent, and programs that have one connection each, of the same number.
pub(super) struct Scene {
    pub(super) agent: Agent,
    pub(super) ends: BTreeMap<u64, Packets>,
    _scratch: tempfile::TempDir,
}

impl Scene {
    pub(super) fn with(processes: &[Process]) -> Self {
        apart::begin();
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("place");
        let mut agent = Agent::new(place.to_str().unwrap(), CoupleLink::Tcp).unwrap().unwrap();
        let mut ends = BTreeMap::new();
        for process in processes.iter().copied() {
            let label = format!("p{process}");
            agent
                .owner
                .life
                .own
                .registry
                .join(process, Who { job: process, ranks: 1, family: process, label });
            let (packets, end) = pair().unwrap();
            agent.links.add(process, packets, Some(process));
            ends.insert(process, end);
        }
        Self { agent, ends, _scratch: scratch }
    }

    /// The answer to a program, and the descriptor that comes with it.
    pub(super) fn call(&mut self, process: Process, request: Request) -> (Reply, Option<OwnedFd>) {
        self.agent.receive(process, request);
        let (message, fd) = self.ends[&process].receive(false).unwrap().unwrap();
        (Reply::decode(&message).unwrap(), fd)
    }

    pub(super) fn open(&mut self, process: Process, write: bool) -> (u64, OwnedFd) {
        match self.call(process, open(write, false)) {
            (Reply::Opened(handle, _), Some(fd)) => (handle, fd),
            other => panic!("{other:?}"),
        }
    }
}

/// A request for the file.
pub(super) fn open(write: bool, blocking: bool) -> Request {
    let path = FILE.to_vec();
    let ask = Ask { path, write, create: write, truncate: write, ..Ask::default() };
    Request::Open { ask, read: !write, append: false, blocking, parts: false, mode: 0o600 }
}

impl Agent {
    /// The memory of the generation that was begun last.
    fn last_area(&self) -> u64 {
        *self.owner.life.own.registry.files.generations.keys().next_back().unwrap()
    }
}

fn number(reply: &Reply) -> i32 {
    match reply {
        Reply::Failed(number, _) => *number,
        _ => 0,
    }
}

#[test]
fn writers_of_a_generation_that_died_are_told_by_every_request_until_they_close_it() {
    let mut scene = Scene::with(&[1, 2]);
    let ((_, one), (handle, other)) = (scene.open(1, true), scene.open(2, true));
    assert_eq!(scene.call(2, Request::Check(handle, 0)).0, Reply::Done);
    drop((one, other));
    scene.agent.owner.life.own.registry.end(1, false);
    scene.agent.settle();
    for request in [Request::Check(handle, 0), Request::Sync(handle), Request::Close(handle, 0)] {
        let (reply, _) = scene.call(2, request.clone());
        let wanted = "/d/f: p1 died before generation 1 was complete".to_owned();
        assert_eq!(reply, Reply::Failed(libc::EIO, wanted), "{request:?}");
    }
    let (reply, _) = scene.call(2, Request::Close(handle, 0));
    assert_eq!(number(&reply), libc::ESTALE, "it is forgotten");
}

#[test]
fn an_open_file_of_an_earlier_agent_is_unknown() {
    let mut scene = Scene::with(&[1]);
    for handle in [77, crate::peers::AWAY | 77] {
        for request in [Request::Check(handle, 0), Request::Sync(handle), Request::Close(handle, 0)]
        {
            let (reply, _) = scene.call(1, request.clone());
            assert_eq!(number(&reply), libc::ESTALE, "{request:?}");
        }
    }
}

impl Scene {
    /// A complete generation that is to be stored when it has been read; its name.
    fn make_stored_later(&mut self, process: Process) -> std::path::PathBuf {
        let path = self.agent.lifetime.socket_watch.place().path().with_file_name("stored");
        let options = Options { persist: Persist::After, ..Options::default() };
        let name = path.as_os_str().as_encoded_bytes().to_vec();
        let ask = Ask { path: name, write: true, create: true, options, ..Ask::default() };
        let request = Request::Open {
            ask,
            read: false,
            append: false,
            blocking: false,
            parts: false,
            mode: 0o600,
        };
        let (Reply::Opened(handle, _), Some(fd)) = self.call(process, request) else { panic!() };
        std::fs::File::from(fd).write_all_at(b"kept", 0).unwrap();
        assert_eq!(self.call(process, Request::Close(handle, 0)).0, Reply::Done);
        path
    }

    /// Serves nothing but results of the disk until there are no more of them.
    fn store(&mut self) {
        while self.agent.owner.life.storage.is_busy() {
            std::thread::sleep(Duration::from_millis(1));
            self.agent.owner.life.storage.hear(&mut self.agent.owner.life.own.registry);
            self.agent.settle();
        }
    }
}

#[test]
fn an_agent_that_is_to_end_stores_first_what_is_to_be_on_disk() {
    let mut scene = Scene::with(&[1]);
    let path = scene.make_stored_later(1);
    let (reply, _) = scene.call(1, Request::Quit);
    assert_eq!(number(&reply), libc::EBUSY);
    assert!(!scene.agent.is_done());
    scene.store();
    assert_eq!(scene.call(1, Request::Quit).0, Reply::Done);
    assert!(scene.agent.is_done());
    assert_eq!(std::fs::read(path).unwrap(), b"kept");
}

#[test]
fn an_agent_that_nobody_can_reach_stores_first_what_is_to_be_on_disk() {
    let mut scene = Scene::with(&[1]);
    let path = scene.make_stored_later(1);
    scene.agent.lifetime.socket_watch.place().remove("sock");
    scene.agent.lifetime.socket_watch.hear();
    assert!(!scene.agent.is_done(), "it is being stored");
    scene.store();
    assert!(scene.agent.is_done());
    assert_eq!(std::fs::read(path).unwrap(), b"kept");
}

#[test]
fn a_generation_that_gets_another_name_while_it_is_stored_is_stored_once_it_has_that_name() {
    let mut scene = Scene::with(&[1]);
    let path = scene.make_stored_later(1);
    let missing = path.with_file_name("missing");
    let names =
        [&path, &missing.join("f")].map(|path| path.as_os_str().as_encoded_bytes().to_vec());
    let quit = |scene: &mut Scene| assert_eq!(number(&scene.call(1, Request::Quit).0), libc::EBUSY);
    quit(&mut scene);
    let [from, to] = names;
    let options = Options { persist: Persist::After, ..Options::default() };
    assert_eq!(scene.call(1, Request::Rename(from, to, options)).0, Reply::Done);
    quit(&mut scene);
    scene.store();
    let generations = &scene.agent.owner.life.own.registry.files.generations;
    assert!(generations.values().all(|one| one.stored == Stored::Failed), "{generations:?}");
    assert!(!path.exists(), "the old name is gone");
    std::fs::create_dir(&missing).unwrap();
    quit(&mut scene);
    scene.store();
    assert_eq!(scene.call(1, Request::Quit).0, Reply::Done);
    assert_eq!(std::fs::read(missing.join("f")).unwrap(), b"kept");
}

#[test]
fn a_stored_file_that_cannot_be_removed_is_told_to_who_writes_it_next() {
    let mut scene = Scene::with(&[1]);
    let path = scene.make_stored_later(1);
    std::fs::create_dir_all(path.join("not empty")).unwrap();
    let name = path.as_os_str().as_encoded_bytes().to_vec();
    let request = Request::Unlink(name.clone(), Options::default());
    assert_eq!(scene.call(1, request).0, Reply::Done);
    scene.store();
    let Some(Reply::Failed(_, text)) = scene.agent.owner.life.storage.trouble(&name) else {
        panic!()
    };
    assert!(text.contains("stored: what was stored cannot be removed"), "{text}");
}

#[test]
fn a_generation_waits_for_how_a_process_ends_that_has_closed_it() {
    let mut scene = Scene::with(&[1, 2, 3]);
    let first = Sleeper::start();
    scene.agent.owner.life.clients.add(1, ClientProcess::of(first.number()).unwrap().0);
    let ((handle, one), (other_handle, other)) = (scene.open(1, true), scene.open(2, true));
    drop(one);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    first.kill();
    while !scene.agent.owner.life.clients.any_dies(&[1].into()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(other);
    assert_eq!(scene.call(2, Request::Close(other_handle, 0)).0, Reply::Done);
    let state =
        scene.agent.owner.life.own.registry.files.generations.values().map(|one| one.state).next();
    assert_eq!(state, Some(State::Writing), "it is not complete");
    scene.agent.lose(1);
    let (reply, _) = scene.call(3, open(false, false));
    assert_eq!(number(&reply), libc::EIO, "its writer died");
}

/// The next generation of a reader: its number and its bytes.
fn read(scene: &mut Scene, process: Process) -> (u64, Vec<u8>) {
    let (Reply::Opened(handle, number), Some(fd)) = scene.call(process, open(false, false)) else {
        panic!("nothing to read")
    };
    let mut bytes = Vec::new();
    std::fs::File::from(fd).read_to_end(&mut bytes).unwrap();
    assert_eq!(scene.call(process, Request::Close(handle, 4096)).0, Reply::Done);
    (number, bytes)
}

#[test]
fn what_was_closed_before_an_open_is_complete_although_the_agent_has_not_seen_that() {
    let mut scene = Scene::with(&[1, 2]);
    let (handle, file) = scene.open(1, true);
    let inherited = file.try_clone().unwrap();
    drop(file);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    std::fs::File::from(inherited).write_all_at(b"first", 0).unwrap();
    let (handle, file) = scene.open(1, true);
    std::fs::File::from(file).write_all_at(b"second", 0).unwrap();
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    assert_eq!(read(&mut scene, 2), (1, b"first".to_vec()));
    assert_eq!(read(&mut scene, 2), (2, b"second".to_vec()));
}

#[test]
fn a_writer_that_died_before_an_open_has_not_begun_what_that_writes() {
    let mut scene = Scene::with(&[1, 2, 3]);
    let child = Sleeper::start();
    scene.agent.owner.life.clients.add(1, ClientProcess::of(child.number()).unwrap().0);
    let (_, file) = scene.open(1, true);
    drop(file);
    child.kill();
    while scene.agent.owner.life.clients.ended().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (handle, file) = scene.open(2, true);
    std::fs::File::from(file).write_all_at(b"second", 0).unwrap();
    assert_eq!(scene.call(2, Request::Close(handle, 0)).0, Reply::Done);
    assert_eq!(read(&mut scene, 3), (2, b"second".to_vec()));
}

#[test]
fn an_open_that_is_taken_back_leaves_nothing_but_what_others_wrote() {
    let mut scene = Scene::with(&[1, 2, 3]);
    let (handle, file) = scene.open(1, true);
    drop(file);
    assert_eq!(scene.call(2, Request::Withdraw(handle)).0, Reply::Done, "it is another's");
    assert_eq!(scene.agent.owner.life.own.registry.files.generations.len(), 1);
    assert_eq!(scene.call(1, Request::Withdraw(handle)).0, Reply::Done);
    assert!(scene.agent.owner.life.own.registry.files.generations.is_empty());
    let (written, file) = scene.open(1, true);
    drop(file);
    let copy = scene
        .agent
        .owner
        .life
        .own
        .memory
        .areas
        .open(scene.agent.last_area(), false, true, false)
        .unwrap();
    assert_eq!(scene.call(1, Request::Close(written, 0)).0, Reply::Done);
    let (again, file) = scene.open(1, true);
    drop((file, copy));
    assert_eq!(scene.call(1, Request::Withdraw(again)).0, Reply::Done);
    assert_eq!(scene.open(3, false).0, again + 1, "what was written before is there");
}

#[test]
fn what_is_spoiled_before_its_descriptor_is_closed_is_never_complete() {
    let mut scene = Scene::with(&[1, 2]);
    let (handle, file) = scene.open(1, true);
    assert_eq!(scene.call(1, Request::Spoil(handle)).0, Reply::Done);
    drop(file);
    let (reply, _) = scene.call(2, open(false, false));
    assert_eq!(number(&reply), libc::EIO);
    let (reply, _) = scene.call(1, Request::Close(handle, 0));
    assert_ne!(reply, Reply::Done, "it is closed");
}

#[test]
fn a_wait_that_is_taken_back_is_answered_once() {
    let mut scene = Scene::with(&[1, 2]);
    scene.agent.receive(2, open(false, true));
    let (reply, _) = scene.call(2, Request::Cancel);
    assert_eq!(number(&reply), libc::EINTR);
    let (handle, file) = scene.open(1, true);
    drop(file);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    scene.open(2, false);
    scene.agent.receive(2, Request::Cancel);
    assert!(scene.ends[&2].receive(false).is_err(), "what was answered is not answered again");
    assert!(scene.agent.links.has(2));
}

#[test]
fn an_open_whose_program_is_gone_is_taken_back() {
    let mut scene = Scene::with(&[1, 2]);
    drop(scene.ends.remove(&1));
    scene.agent.receive(1, open(true, false));
    assert!(scene.agent.owner.life.own.registry.opens.is_empty());
    assert!(scene.agent.owner.life.own.registry.files.generations.is_empty());
}

#[test]
fn parts_of_a_status_are_of_one_text() {
    let mut scene = Scene::with(&[]);
    let (packets, end) = pair().unwrap();
    scene.agent.links.add(1, packets, None);
    scene.ends.insert(1, end);
    let label = |process: u64| format!("{process} {}", "x".repeat(300));
    let join = |scene: &mut Scene, process: u64| {
        let who = Who { job: process, ranks: 1, family: process, label: label(process) };
        scene.agent.owner.life.own.registry.join(process, who);
    };
    (100..200).for_each(|process| join(&mut scene, process));
    let Agent { owner, peers, lifetime, .. } = &scene.agent;
    let wanted = status::status(owner, peers.as_ref(), lifetime).to_string();
    let mut text = Vec::new();
    while text.len() < wanted.len() {
        let (reply, _) = scene.call(1, Request::Status(text.len() as u64));
        let Reply::Text(part, total) = reply else { panic!("{reply:?}") };
        assert_eq!(total, wanted.len() as u64);
        text.extend(part);
        let process = 50 - text.len() as u64 % 40;
        join(&mut scene, process);
    }
    let seconds = |text: &str| text.split_once("\"processes\"").unwrap().1.to_owned();
    assert_eq!(seconds(&String::from_utf8(text).unwrap()), seconds(&wanted));
}

#[test]
fn a_program_that_stands_still_is_reminded_once_and_has_room_for_its_answer() {
    let mut scene = Scene::with(&[1, 2]);
    scene.agent.receive(2, open(false, true));
    for _ in 0..10_000 {
        scene.agent.reply(2, &Reply::Waits("x".repeat(300)), None);
    }
    let (handle, file) = scene.open(1, true);
    drop(file);
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    let mut replies = Vec::new();
    while let Ok(Some((message, _))) = scene.ends[&2].receive(false) {
        replies.push(Reply::decode(&message).unwrap());
    }
    assert!(matches!(&replies[..], [Reply::Waits(_), Reply::Opened(..)]), "{replies:?}");
}

#[test]
fn what_cannot_be_done_with_memory_is_told_to_who_wanted_it() {
    let mut scene = Scene::with(&[1]);
    let (_, file) = scene.open(1, true);
    let area = scene.agent.last_area();
    scene.agent.owner.life.own.memory.areas.free(area);
    let (reply, _) = scene.call(1, Request::Empty(FILE.to_vec()));
    assert_eq!(number(&reply), libc::ESTALE);
    drop(file);
}

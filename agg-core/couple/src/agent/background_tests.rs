//! Large files are copied and compared while others are served.

use super::tests::{FILE, Scene};
use super::*;
use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Options, Process, State};
use aggio_config::settings::couple::Pick;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

const LEN: usize = 40 << 20;

/// A request to change the file, from its beginning if `truncate`.
fn update(truncate: bool) -> Request {
    let ask = Ask { path: FILE.to_vec(), write: true, truncate, ..Ask::default() };
    Request::Open { ask, read: true, append: false, blocking: true, parts: false, mode: 0o600 }
}

impl Scene {
    /// A scene with a complete generation, and a request of process 1 to change it.
    fn with_update() -> Self {
        let mut scene = Self::with(&[1, 2, 3]);
        let (handle, file) = scene.open(1, true);
        File::from(file).write_all_at(&vec![7; LEN], 0).unwrap();
        assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
        scene.agent.receive(1, update(false));
        assert!(scene.ends[&1].receive(false).is_err(), "it is not answered yet");
        scene
    }

    /// What a program is answered at last.
    fn answer(&mut self, process: Process) -> (u64, File) {
        let began = Instant::now();
        loop {
            if let Ok(Some((message, fd))) = self.ends[&process].receive(false) {
                match Reply::decode(&message).unwrap() {
                    Reply::Opened(handle, _) => return (handle, fd.unwrap().into()),
                    other => panic!("{other:?}"),
                }
            }
            assert!(began.elapsed() < Duration::from_secs(30));
            self.turn_aside();
        }
    }

    fn turn_aside(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
        for area in self.agent.owner.life.own.memory.areas.closed() {
            self.agent.owner.life.look_again(area, 0);
        }
        self.agent.owner.life.hear_background();
        self.agent.settle();
    }

    fn close(&mut self, process: Process, (handle, file): (u64, File)) {
        drop(file);
        assert_eq!(self.call(process, Request::Close(handle, 0)).0, Reply::Done);
    }

    /// The newest complete generation, when nothing is written any more.
    fn newest(&mut self) -> u64 {
        let began = Instant::now();
        while self
            .agent
            .owner
            .life
            .own
            .registry
            .files
            .generations
            .values()
            .any(|one| one.state == State::Writing)
        {
            assert!(began.elapsed() < Duration::from_secs(30));
            self.turn_aside();
        }
        self.agent
            .owner
            .life
            .own
            .registry
            .files
            .generations
            .values()
            .map(|one| one.number)
            .max()
            .unwrap()
    }
}

#[test]
fn others_are_served_while_a_large_generation_is_copied_and_compared() {
    let mut scene = Scene::with_update();
    let stat = Request::Stat(FILE.to_vec(), Options::default());
    assert!(matches!(scene.call(2, stat.clone()).0, Reply::Stat(Some(_))));
    let open = scene.answer(1);
    let mut bytes = vec![0; LEN];
    open.1.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    scene.close(1, open);
    assert!(matches!(scene.call(2, stat).0, Reply::Stat(Some(_))));
    assert_eq!(scene.newest(), 1, "a copy that nobody changed is no generation");
}

#[test]
fn a_large_copy_that_was_changed_is_a_generation() {
    let mut scene = Scene::with_update();
    let open = scene.answer(1);
    open.1.write_all_at(b"new", LEN as u64 - 3).unwrap();
    scene.close(1, open);
    assert_eq!(scene.newest(), 2);
}

#[test]
fn who_opens_a_large_copy_while_it_is_compared_is_waited_for() {
    let mut scene = Scene::with_update();
    let open = scene.answer(1);
    scene.close(1, open);
    scene.agent.receive(1, update(false));
    let again = scene.answer(1);
    again.1.write_all_at(b"new", 9).unwrap();
    scene.turn_aside();
    scene.close(1, again);
    let newest = scene.newest();
    let mut bytes = [0; 3];
    let (_, file) = scene.open(1, false);
    File::from(file).read_exact_at(&mut bytes, 9).unwrap();
    assert_eq!((newest, &bytes), (2, b"new"));
}

#[test]
fn a_file_that_is_cut_while_it_is_copied_has_no_bytes() {
    let mut scene = Scene::with_update();
    scene.agent.receive(2, update(true));
    let (one, other) = (scene.answer(1), scene.answer(2));
    assert_eq!((one.1.metadata().unwrap().len(), other.1.metadata().unwrap().len()), (0, 0));
    other.1.write_all_at(b"short", 0).unwrap();
    scene.close(1, one);
    scene.close(2, other);
    assert_eq!(scene.newest(), 2);
}

#[test]
fn a_copy_whose_program_dies_meanwhile_is_given_up() {
    let mut scene = Scene::with_update();
    scene.ends.remove(&1);
    scene.agent.hang_up(1);
    scene.agent.owner.life.own.registry.end(1, false);
    scene.agent.settle();
    let began = Instant::now();
    while scene.agent.owner.life.own.registry.files.generations.len() > 1
        || !scene.agent.owner.life.background.is_idle()
    {
        assert!(began.elapsed() < Duration::from_secs(30));
        scene.turn_aside();
    }
    assert!(scene.agent.owner.life.own.registry.opens.is_empty());
}

#[test]
fn who_waits_for_a_copy_whose_beginner_dies_is_told() {
    let mut scene = Scene::with_update();
    scene.agent.receive(2, update(false));
    scene.agent.owner.life.own.registry.end(1, false);
    scene.agent.settle();
    let began = Instant::now();
    let reply = loop {
        match scene.ends[&2].receive(false) {
            Ok(Some((message, _))) => break Reply::decode(&message).unwrap(),
            _ => scene.turn_aside(),
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    };
    let wanted = "/d/f: p1 died before generation 2 was complete".to_owned();
    assert_eq!(reply, Reply::Failed(libc::EIO, wanted));
}

#[test]
fn an_agent_does_not_end_while_generations_are_copied_or_compared() {
    let mut scene = Scene::with_update();
    let is_busy = |scene: &mut Scene| match scene.agent.end_if_idle() {
        Reply::Failed(libc::EBUSY, text) => text.contains("compared"),
        _ => false,
    };
    assert!(is_busy(&mut scene), "copied");
    let open = scene.answer(1);
    open.1.write_all_at(b"new", 0).unwrap();
    let time =
        std::fs::FileTimes::new().set_modified(open.1.metadata().unwrap().modified().unwrap());
    open.1.set_times(time).unwrap();
    scene.close(1, open);
    assert_eq!(scene.newest(), 2);
    assert_eq!(scene.agent.end_if_idle(), Reply::Done);
}

#[test]
fn a_reader_of_the_latest_generation_waits_for_a_large_copy_that_is_compared() {
    let mut scene = Scene::with_update();
    let open = scene.answer(1);
    let time = open.1.metadata().unwrap().modified().unwrap();
    open.1.write_all_at(b"new", 0).unwrap();
    open.1.set_times(std::fs::FileTimes::new().set_modified(time)).unwrap();
    scene.close(1, open);
    let options = Options { pick: Pick::Latest, ..Options::default() };
    let ask = Ask { path: FILE.to_vec(), options, ..Ask::default() };
    let [read, blocking] = [true; 2];
    let request = Request::Open { ask, read, append: false, blocking, parts: false, mode: 0 };
    scene.agent.receive(2, request);
    let (_, file) = scene.answer(2);
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"new");
}

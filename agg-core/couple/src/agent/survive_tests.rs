//! Readers get each generation once and in its order, however many agents die meanwhile.

use super::clients::ClientProcess;
use super::*;
use crate::protocol::{Packets, Reply, Request, pair};
use crate::registry::{Ask, Options, Process, State, Who};
use crate::tests::apart::{self, Sleeper};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

const FILE: &[u8] = b"/d/f";
const READERS: usize = 2;

/// Bytes of a generation: more than a look at a file.
const LEN: usize = 5000;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Open(usize),
    Close(usize),
    /// The agent dies.
    Kill,
    /// It dies before a reader has its answer, and that reader asks the next one again.
    KillAtOpen(usize),
    KillAtClose(usize),
    /// A reader is killed, and another one of its family takes its place.
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let reader = || 0..READERS;
    prop_oneof![
        3 => Just(Step::Write),
        4 => reader().prop_map(Step::Open),
        4 => reader().prop_map(Step::Close),
        2 => Just(Step::Kill),
        1 => reader().prop_map(Step::KillAtOpen),
        1 => reader().prop_map(Step::KillAtClose),
        1 => reader().prop_map(Step::Restart),
    ]
}

/// A process of a family of its own.
struct Part {
    sleeper: Sleeper,
    /// The generations that it has read, and its open files.
    done: u64,
    open: Option<(u64, u64)>,
    /// It has asked for the file.
    is_known: bool,
}

impl Part {
    fn new(done: u64) -> Self {
        Self { sleeper: Sleeper::start(), done, open: None, is_known: false }
    }
}

/// Agents of one place, one after the other, and programs that outlive them.
struct Scene {
    scratch: tempfile::TempDir,
    agent: Option<Agent>,
    ends: BTreeMap<u64, Packets>,
    options: Options,
    parts: Vec<Part>,
    made: u64,
    key: u64,
    /// The agent dies before it can answer the next request of a reader.
    dies: bool,
}

/// Its number as process and connection, which no agent gives.
const WRITER: u64 = 1 << 40;

impl Scene {
    fn new() -> Self {
        apart::begin();
        let scratch = tempfile::tempdir().unwrap();
        let kept = scratch.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        let spill = Some(kept.to_str().unwrap().into());
        let options = Options { survives: true, spill, ..Options::default() };
        let parts = (0..READERS).map(|_| Part::new(0)).collect();
        let mut scene = Self {
            scratch,
            agent: None,
            ends: BTreeMap::new(),
            options,
            parts,
            made: 0,
            key: 0,
            dies: false,
        };
        scene.begin();
        scene
    }

    /// Another agent, to which all programs connect.
    fn begin(&mut self) {
        self.agent = None;
        let place = self.scratch.path().join("place");
        let began = std::time::Instant::now();
        // A child of another test has the lock, too, until it becomes another program.
        let mut agent = loop {
            if let Some(agent) = Agent::new(place.to_str().unwrap(), CoupleLink::Tcp).unwrap() {
                break agent;
            }
            assert!(began.elapsed().as_secs() < 30, "another agent is there");
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        agent.owner.life.find_survivors(&self.options).unwrap();
        self.agent = Some(agent);
        let who = |agent: &mut Agent, text: &str| {
            let number = agent.owner.life.clients.jobs.of(text);
            Who { job: number, ranks: 1, family: number, label: text.into() }
        };
        let agent = self.agent.as_mut().unwrap();
        let writer = who(agent, "job of the writer");
        agent.owner.life.own.registry.join(WRITER, writer);
        self.connect(WRITER, WRITER);
        for part in 0..READERS {
            self.enter(part);
        }
    }

    fn agent(&mut self) -> &mut Agent {
        self.agent.as_mut().unwrap()
    }

    fn connect(&mut self, link: u64, process: Process) {
        let (packets, end) = pair().unwrap();
        self.agent().links.add(link, packets, Some(process));
        self.ends.insert(link, end);
    }

    /// A reader connects, and the agent may know it.
    fn enter(&mut self, part: usize) {
        let client = ClientProcess::of(self.parts[part].sleeper.number()).unwrap().0;
        let agent = self.agent();
        let process = match agent.owner.life.clients.find(client.pid, client.start) {
            Some(process) => process,
            None => {
                let process = agent.owner.life.own.registry.numbers.next();
                let (job, family) = (format!("process {}", client.pid), format!("session {part}"));
                let (job, family) = (
                    agent.owner.life.clients.jobs.of(&job),
                    agent.owner.life.clients.jobs.of(&family),
                );
                let label = format!("reader {part}");
                agent.owner.life.own.registry.join(process, Who { job, ranks: 1, family, label });
                agent.owner.life.clients.add(process, client);
                process
            }
        };
        self.connect(10 + part as u64, process);
    }

    fn call(&mut self, link: u64, request: Request) -> (Reply, Option<OwnedFd>) {
        if std::mem::take(&mut self.dies) {
            let again = Request::decode(&request.encode()).unwrap();
            self.agent().receive(link, again);
            self.begin();
        }
        self.agent().receive(link, request);
        let (message, fd) = self.ends[&link].receive(false).unwrap().unwrap();
        (Reply::decode(&message).unwrap(), fd)
    }

    fn ask(&mut self, write: bool) -> Request {
        self.key += 1;
        let (path, options, key) = (FILE.to_vec(), self.options.clone(), self.key);
        let [create, truncate] = [write; 2];
        let ask = Ask { path, write, create, truncate, options, key, ..Ask::default() };
        Request::Open {
            ask,
            read: !write,
            append: false,
            blocking: false,
            parts: false,
            mode: 0o600,
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Write => {
                let ask = self.ask(true);
                let (reply, fd) = self.call(WRITER, ask);
                let Reply::Opened(handle, number) = reply else { panic!("{reply:?}") };
                self.made += 1;
                assert_eq!(number, self.made);
                let file = File::from(fd.unwrap());
                file.write_all_at(&[number as u8; LEN], 0).unwrap();
                drop(file);
                assert_eq!(self.call(WRITER, Request::Close(handle, 0)).0, Reply::Done);
                self.until_complete();
            }
            Step::Open(part) if self.parts[part].open.is_none() => self.open(part),
            Step::Close(part) => {
                if let Some((handle, number)) = self.parts[part].open.take() {
                    let request = Request::Close(handle, LEN as u64);
                    // One that was closed already is not known any more.
                    let dies = self.dies;
                    let reply = self.call(10 + part as u64, request).0;
                    assert!(reply == Reply::Done || dies && is_unknown(&reply), "{reply:?}");
                    self.parts[part].done = number;
                }
            }
            Step::KillAtOpen(part) | Step::KillAtClose(part) => {
                self.dies = true;
                self.apply(match step {
                    Step::KillAtOpen(_) => Step::Open(part),
                    _ => Step::Close(part),
                });
                self.dies = false;
            }
            Step::Kill => self.begin(),
            Step::Restart(part) => {
                self.parts[part] = Part::new(self.parts[part].done);
                self.agent().lose_the_dead();
                self.enter(part);
            }
            Step::Open(_) => {}
        }
        // As at the end of each turn.
        self.agent().settle();
        self.agent().owner.life.save();
    }

    /// A child of another test has the file open, too, until it becomes another program.
    fn until_complete(&mut self) {
        let began = std::time::Instant::now();
        loop {
            let all = self.agent().owner.life.own.registry.files.generations.iter();
            let writing = all.filter(|(_, one)| one.state == State::Writing);
            let writing: Vec<u64> = writing.map(|(area, _)| *area).collect();
            if writing.is_empty() {
                return;
            }
            assert!(began.elapsed().as_secs() < 30, "somebody has it open");
            std::thread::sleep(std::time::Duration::from_millis(2));
            writing.into_iter().for_each(|area| self.agent().owner.life.look(area));
            self.agent().settle();
        }
    }

    fn open(&mut self, part: usize) {
        let ask = self.ask(false);
        let (reply, fd) = self.call(10 + part as u64, ask);
        let next = self.parts[part].done + 1;
        let was_known = std::mem::replace(&mut self.parts[part].is_known, true);
        match reply {
            Reply::Opened(handle, number) => {
                // Generations that all others had read before it came were given up.
                let is_it = number == next || !was_known && number > next;
                assert!(is_it, "{number} instead of {next}");
                let mut bytes = [0; LEN];
                File::from(fd.unwrap()).read_exact_at(&mut bytes, 0).unwrap();
                assert!(bytes.iter().all(|byte| *byte == number as u8), "{number}");
                self.parts[part].open = Some((handle, number));
            }
            Reply::Failed(libc::EAGAIN, _) => {
                assert!(next > self.made || !was_known, "{next} is not there");
            }
            other => panic!("{other:?}"),
        }
    }
}

fn is_unknown(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed(libc::ESTALE, _))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn readers_get_each_generation_once_and_in_its_order_from_whatever_agent(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        let mut scene = Scene::new();
        // Readers that are there from the beginning wait for all of it.
        (0..READERS).for_each(|part| scene.apply(Step::Open(part)));
        steps.into_iter().for_each(|step| scene.apply(step));
        scene.begin();
        for part in 0..READERS {
            scene.apply(Step::Close(part));
            for _ in 0..=scene.made {
                [Step::Open(part), Step::Close(part)].into_iter().for_each(|one| scene.apply(one));
            }
        }
        // Everybody ends, and the agent: nothing is left.
        scene.parts.clear();
        scene.agent().lose_the_dead();
        scene.agent().owner.life.own.registry.end(WRITER, true);
        scene.agent().settle();
        prop_assert!(scene.agent().owner.life.own.registry.files.generations.is_empty());
        scene.agent().owner.life.survivors.leave(false);
        let left = std::fs::read_dir(scene.scratch.path().join("kept")).unwrap().count();
        prop_assert_eq!(left, 0);
    }
}

#[test]
fn an_agent_that_is_told_to_end_removes_what_survives_it() {
    let mut scene = Scene::new();
    scene.parts.clear();
    scene.agent().lose_the_dead();
    scene.apply(Step::Write);
    assert_eq!(scene.call(WRITER, Request::Quit).0, Reply::Done);
    let quit = scene.agent().lifetime.quits;
    scene.agent().owner.life.survivors.leave(quit);
    let left = std::fs::read_dir(scene.scratch.path().join("kept")).unwrap().count();
    assert_eq!(left, 0);
}

impl Scene {
    /// Changes the record that an agent which has died wrote of the file.
    fn change_record(&mut self, change: impl FnOnce(&mut crate::spool::Record)) {
        self.agent = None;
        let place = Place::open(self.scratch.path().join("place").to_str().unwrap()).unwrap();
        let spool =
            crate::spool::Spool::open(self.options.spill.as_deref().unwrap(), &place).unwrap();
        let mut found = spool.find(&aggio_base::host::boot()).unwrap();
        let (number, mut record) = found.records.remove(0);
        change(&mut record);
        spool.write(number, &record).unwrap();
    }
}

#[test]
fn a_generation_that_was_about_to_get_its_name_is_lost_by_its_writer_and_no_older_one_is() {
    let mut scene = Scene::new();
    scene.apply(Step::Open(0));
    (0..3).for_each(|_| scene.apply(Step::Write));
    scene.apply(Step::Open(0));
    scene.apply(Step::Close(0));
    scene.change_record(|record| {
        let last = record.generations.last().unwrap().clone();
        let next = crate::spool::Kept { area: 7, number: 4, named: false, ..last };
        record.numbers[0] = 4;
        record.generations.push(next);
    });
    scene.begin();
    for _ in 2..=3 {
        scene.apply(Step::Open(0));
        scene.apply(Step::Close(0));
    }
    assert_eq!(scene.parts[0].done, 3);
    // Its writer has ended, and does not write it again.
    let ask = scene.ask(false);
    let (reply, _) = scene.call(10, ask);
    assert!(matches!(reply, Reply::Failed(libc::EIO, _)), "{reply:?}");
}

#[test]
fn a_generation_that_was_given_up_or_is_missing_is_lost_for_those_that_have_not_read_it() {
    for is_missing in [false, true] {
        let mut scene = Scene::new();
        scene.apply(Step::Open(0));
        (0..2).for_each(|_| scene.apply(Step::Write));
        scene.apply(Step::Open(0));
        scene.apply(Step::Close(0));
        scene.change_record(|record| {
            let last = record.generations.last_mut().unwrap();
            match is_missing {
                false => (last.area, last.named) = (7, true),
                true => (last.number, record.numbers[0], record.missing) = (3, 3, vec![2]),
            }
        });
        scene.begin();
        let ask = scene.ask(false);
        let (reply, _) = scene.call(10, ask);
        assert!(matches!(reply, Reply::Failed(libc::ESTALE, _)), "{reply:?}");
    }
}

#[test]
fn a_close_is_answered_by_an_agent_that_only_its_program_has_told_of_the_directory() {
    let mut scene = Scene::new();
    let ask = scene.ask(true);
    let (reply, fd) = scene.call(WRITER, ask);
    let Reply::Opened(handle, 1) = reply else { panic!("{reply:?}") };
    File::from(fd.unwrap()).write_all_at(b"bytes", 0).unwrap();
    assert_eq!(scene.call(WRITER, Request::Close(handle, 0)).0, Reply::Done);
    for (spools, is_known) in [(vec![], false), (vec![scene.options.spill.clone()], true)] {
        scene.agent = None;
        let place = scene.scratch.path().join("place");
        scene.agent = Agent::new(place.to_str().unwrap(), CoupleLink::Tcp).unwrap();
        let (packets, end) = pair().unwrap();
        scene.agent().links.add(1, packets, None);
        scene.ends.insert(1, end);
        let spools = spools.iter().flatten().cloned().collect();
        let (job, command) = (String::new(), "writer".into());
        let hello = Request::Hello { job, ranks: 1, rank: 0, command, spools };
        assert_eq!(scene.call(1, hello).0, Reply::Done);
        let (reply, _) = scene.call(1, Request::Close(handle, 0));
        assert_eq!(reply == Reply::Done, is_known, "{reply:?}");
    }
}

#[test]
fn a_generation_that_two_records_name_has_one_name() {
    let mut scene = Scene::new();
    scene.apply(Step::Write);
    scene.agent = None;
    let place = Place::open(scene.scratch.path().join("place").to_str().unwrap()).unwrap();
    let kept = scene.options.spill.as_deref().unwrap();
    let spool = crate::spool::Spool::open(kept, &place).unwrap();
    let (number, mut record) = spool.find(&aggio_base::host::boot()).unwrap().records.remove(0);
    // The agent died while it renamed the file.
    record.path = b"/d/to".to_vec();
    spool.write(number + 1, &record).unwrap();
    drop(spool);
    scene.begin();
    let generations: Vec<_> =
        scene.agent().owner.life.own.registry.files.generations.values().collect();
    assert_eq!(generations.len(), 1);
    let names = scene.agent().owner.life.own.registry.files.names.values();
    assert_eq!(names.map(|name| name.generations.len()).sum::<usize>(), 1);
}

#[test]
fn an_open_for_writing_of_which_its_agent_could_not_tell_loses_nothing() {
    let mut scene = Scene::new();
    // The second program writes, and the next agent knows that it lives.
    let writer = 11;
    for number in 1..=2 {
        scene.dies = number == 2;
        let ask = scene.ask(true);
        let (reply, fd) = scene.call(writer, ask);
        let Reply::Opened(handle, _) = reply else { panic!("{reply:?}") };
        File::from(fd.unwrap()).write_all_at(&[number; LEN], 0).unwrap();
        assert_eq!(scene.call(writer, Request::Close(handle, 0)).0, Reply::Done);
        scene.until_complete();
        let ask = scene.ask(false);
        let (reply, fd) = scene.call(10, ask);
        let Reply::Opened(handle, _) = reply else { panic!("{reply:?}") };
        let mut bytes = [0; LEN];
        File::from(fd.unwrap()).read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [number; LEN]);
        assert_eq!(scene.call(10, Request::Close(handle, LEN as u64)).0, Reply::Done);
        scene.agent().settle();
        scene.agent().owner.life.save();
    }
}

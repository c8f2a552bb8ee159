//! Memory for the generations that are there, and the one that begins: nothing is lost, nobody
//! waits without end, and there is never more than the rule allows.

use super::*;
use aggio_config::settings::couple::Full;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Bytes of each generation.
const SIZE: u64 = 10;
const PLACE: &str = "/spill";
const WRITER: Process = 1;
const READER: Process = 2;

/// One file, one writer and at most one reader, and a directory of so many bytes.
struct World {
    registry: Registry,
    options: Options,
    room: u64,
    memory: BTreeMap<Area, u64>,
    moved: BTreeMap<Area, u64>,
    moving: Vec<Area>,
    writing: Option<Opening>,
    waits: bool,
    reading: Option<Opening>,
    made: u64,
    read: Vec<u64>,
    /// The error of the last open for writing.
    failed: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Written,
    Read,
    Close,
    Moved,
    TryAgain,
}

impl World {
    fn new(budget: u64, full: Full, room: Option<u64>, reads: bool) -> Self {
        let spill = room.map(|_| PLACE.into());
        let options = Options { budget, full, spill, ..Options::default() };
        let mut registry = Registry::default();
        for process in [WRITER, READER].into_iter().take(1 + usize::from(reads)) {
            let who = Who { job: process, ranks: 1, family: process, label: String::new() };
            registry.join(process, who);
        }
        let (memory, moved, read) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (writing, reading, failed) = (None, None, None);
        let moving = Vec::new();
        let (room, waits, made) = (room.unwrap_or(0), false, 0);
        Self {
            registry,
            options,
            room,
            memory,
            moved,
            moving,
            writing,
            waits,
            reading,
            made,
            read,
            failed,
        }
    }

    fn ask(&self, write: bool) -> Ask {
        let (path, options) = (FILE.into(), self.options.clone());
        Ask { path, write, create: write, truncate: write, options, ..Ask::default() }
    }

    /// The bytes in memory; a generation that is being written may have all of its bytes at any
    /// time.
    fn held(&self) -> u64 {
        self.memory.values().sum()
    }

    fn settle(&mut self) {
        loop {
            let effects = self.registry.effects();
            let is_done = effects.is_empty();
            for effect in effects {
                match effect {
                    Effect::Make(area, _) => _ = self.memory.insert(area, SIZE),
                    Effect::Free(area) => {
                        assert!(self.reading.is_none_or(|open| open.area != area));
                        self.memory.remove(&area);
                        self.moved.remove(&area);
                    }
                    Effect::Move(area, place) => {
                        let is_there = |area: &Area| self.memory.contains_key(area);
                        assert!(!self.moving.iter().any(is_there), "one at a time");
                        assert_eq!(&*place, PLACE);
                        self.moving.push(area);
                        assert!(self.reading.is_none_or(|open| open.area != area));
                    }
                    Effect::Look(area) if self.writing.is_none() => {
                        self.registry.commit(area, true);
                        self.registry.files.weigh(area, SIZE);
                    }
                    _ => {}
                }
            }
            if !is_done {
                continue;
            }
            self.registry.files.room.measure(self.held(), 0, 0);
            if let Some((_, answer)) = self.registry.ready() {
                self.waits = false;
                self.begun(&answer);
            } else if let Some(path) = self.registry.files.room.grown.take() {
                self.registry.files.move_ahead(&path);
            } else if self.registry.files.effects.is_empty() {
                return;
            }
        }
    }

    fn begun(&mut self, answer: &Answer) {
        match answer {
            Answer::Opened(opening) => {
                self.made += 1;
                assert_eq!(opening.generation, self.made);
                self.writing = Some(*opening);
            }
            Answer::Fail(error) => self.failed = Some(*error),
            other => panic!("{other:?}"),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Write if self.writing.is_none() && !self.waits => {
                self.failed = None;
                let ask = self.ask(true);
                self.registry.files.room.measure(self.held(), 0, 0);
                match self.registry.open(WRITER, &ask) {
                    Answer::Wait => {
                        self.waits = true;
                        self.registry.waits.add(1, WRITER, ask);
                    }
                    answer => self.begun(&answer),
                }
            }
            Step::Written => {
                if let Some(opening) = self.writing.take() {
                    self.registry.close(WRITER, opening.handle, 0, false);
                }
            }
            Step::Read if self.reading.is_none() => {
                let mut answer = self.registry.open(READER, &self.ask(false));
                if answer == Answer::Fail(libc::ESTALE) {
                    assert_eq!(self.options.full, Full::Drop);
                    answer = self.registry.open(READER, &self.ask(false));
                }
                if let Answer::Opened(opening) = answer {
                    let is_there = |all: &BTreeMap<Area, u64>| all.contains_key(&opening.area);
                    assert!(is_there(&self.memory) || is_there(&self.moved));
                    self.read.push(opening.generation);
                    self.reading = Some(opening);
                }
            }
            Step::Close => {
                if let Some(opening) = self.reading.take() {
                    self.registry.close(READER, opening.handle, 1 << 20, false);
                    // The memory of a generation that has moved meanwhile was this reader's.
                    if self.moved.contains_key(&opening.area) {
                        self.memory.remove(&opening.area);
                    }
                }
            }
            Step::Moved => self.finish_move(),
            Step::TryAgain => _ = self.registry.files.room.try_directories_again(),
            Step::Write | Step::Read => {}
        }
        self.settle();
        // Nobody waits for readers where the oldest is to be given up.
        let is_open = self.reading.is_some_and(|open| self.memory.contains_key(&open.area));
        let more = if is_open && self.options.full == Full::Drop { SIZE } else { 0 };
        let most = self.options.budget.max(SIZE) + more;
        assert!(self.held() <= most, "{} of memory", self.held());
    }

    fn apply_all(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.apply(*step));
    }

    fn finish_move(&mut self) {
        if self.moving.is_empty() {
            return;
        }
        let area = self.moving.remove(0);
        // It may have been given up meanwhile.
        let is_there = self.memory.contains_key(&area);
        let has_room = self.moved.values().sum::<u64>() + SIZE <= self.room;
        if has_room && is_there {
            self.moved.insert(area, SIZE);
            if self.reading.is_none_or(|open| open.area != area) {
                self.memory.remove(&area);
            }
        }
        let next = self.registry.numbers.peek();
        match has_room {
            true => self.registry.files.moved(area, next),
            false => self.registry.files.not_moved(area, libc::ENOSPC),
        }
    }

    /// All take their steps until nothing is left to do.
    fn finish(&mut self) {
        let before = |world: &Self| (world.made, world.read.len(), world.moved.len());
        loop {
            let was = before(self);
            for step in [Step::Moved, Step::Written, Step::Close, Step::Read, Step::Close] {
                self.apply(step);
            }
            if was == before(self) && self.moving.is_empty() {
                return;
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Write),
        6 => Just(Step::Written),
        3 => Just(Step::Read),
        3 => Just(Step::Close),
        4 => Just(Step::Moved),
        1 => Just(Step::TryAgain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_within_the_budget_and_nothing_is_lost(
        budget in 1u64..60,
        room in prop::option::of(0u64..60),
        drops in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let full = if drops { Full::Drop } else { Full::Wait };
        let mut world = World::new(budget, full, room, true);
        steps.into_iter().for_each(|step| world.apply(step));
        world.finish();
        prop_assert!(world.writing.is_none() && !world.waits && world.reading.is_none());
        prop_assert_eq!(world.failed, None, "a reader is there");
        let all: Vec<u64> = (1..=world.made).collect();
        if drops {
            prop_assert!(world.read.is_sorted_by(|one, next| one < next));
        } else {
            prop_assert_eq!(world.read, all);
        }
        prop_assert!(world.memory.len() <= 1 && world.moved.len() <= 1, "the writer's newest");
    }

    #[test]
    fn a_writer_without_readers_is_told_when_the_directory_is_full(
        budget in 1u64..60,
        room in 0u64..60,
    ) {
        let mut world = World::new(budget, Full::Wait, Some(room), false);
        for _ in 0..20 {
            world.apply_all(&[Step::Write, Step::Moved, Step::Written]);
        }
        prop_assert_eq!(world.failed, Some(libc::ENOSPC));
        prop_assert!(!world.waits, "nobody would end that");
        // All that fits.
        let fits = budget.max(SIZE) / SIZE + room / SIZE;
        prop_assert_eq!(world.made, fits);
    }
}

/// The numbers of the generations that have moved.
fn moved(world: &World) -> Vec<u64> {
    let generations = &world.registry.files.generations;
    world.moved.keys().map(|area| generations[area].number).collect()
}

fn make(world: &mut World, count: u64) {
    for _ in 0..count {
        world.apply_all(&[Step::Write, Step::Moved, Step::Written]);
    }
}

#[test]
fn what_is_read_last_moves_first() {
    let mut world = World::new(4 * SIZE, Full::Wait, Some(100), true);
    make(&mut world, 3);
    assert_eq!(moved(&world), [], "there is room for another one");
    make(&mut world, 2);
    world.apply(Step::Moved);
    // The next one will need its place.
    assert_eq!(moved(&world), [4, 5]);
    world.finish();
    assert_eq!(world.read, [1, 2, 3, 4, 5]);
}

#[test]
fn who_reads_the_newest_only_finds_it_in_memory() {
    let mut world = World::new(3 * SIZE, Full::Wait, Some(100), true);
    world.options.pick = Pick::Latest;
    world.options.keep = 4;
    make(&mut world, 4);
    world.apply(Step::Moved);
    assert_eq!(moved(&world), [1, 2]);
}

#[test]
fn a_generation_that_somebody_opens_while_it_moves_keeps_its_memory_for_him() {
    let mut world = World::new(2 * SIZE, Full::Wait, Some(100), true);
    make(&mut world, 1);
    world.apply(Step::Write);
    world.apply(Step::Written);
    let area = world.moving[0];
    while world.reading.is_none_or(|open| open.area != area) {
        world.apply_all(&[Step::Close, Step::Read]);
    }
    world.apply(Step::Write);
    assert!(world.waits || world.writing.is_some());
    world.apply(Step::Moved);
    assert!(world.memory.contains_key(&area) && world.moved.contains_key(&area));
    world.finish();
    assert_eq!(world.read, (1..=world.made).collect::<Vec<_>>());
}

#[test]
fn the_oldest_is_given_up_only_when_the_directory_is_full() {
    let mut world = World::new(2 * SIZE, Full::Drop, Some(SIZE), true);
    make(&mut world, 3);
    world.apply(Step::Moved);
    assert_eq!(world.registry.files.generations.len(), 3, "one of them is in the directory");
    make(&mut world, 2);
    world.finish();
    assert!(world.read.len() >= 3 && world.read.len() < 5, "{:?}", world.read);
}

#[test]
fn a_directory_that_was_full_takes_more_when_something_has_left_it() {
    let mut world = World::new(2 * SIZE, Full::Wait, Some(SIZE), true);
    make(&mut world, 3);
    world.apply_all(&[Step::Written, Step::Moved, Step::Write, Step::Moved]);
    assert!(world.waits && world.registry.files.room.full_directories().count() == 1);
    world.finish();
    assert_eq!(world.registry.files.room.full_directories().count(), 0);
    assert_eq!(world.read, (1..=world.made).collect::<Vec<_>>());
}

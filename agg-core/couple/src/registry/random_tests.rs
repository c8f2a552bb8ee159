//! Random histories of opens, closes, deaths and removals against an oracle that is a list.
//!
//! The oracle knows one file, writers that each make a generation at a time, and readers that each
//! have it open once at a time. The first writer is on another node: its bytes are on their way for
//! a time, while other generations follow. The oracle keeps every generation for ever, so that it
//! also finds a generation that was given up too early, and one that is never given up.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const FILE: &[u8] = b"/d/f";
const WRITERS: u64 = 2;
/// The writer on another node, and that node.
const AWAY: (usize, u64) = (1, 7);
const READERS: u64 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A writer begins a generation, or joins the one that is being written.
    Write(u64),
    /// A writer is done.
    Written(u64),
    /// The bytes of one of the generations that are on their way have come.
    Arrive(usize),
    /// A reader opens, and waits if it must.
    Read(u64),
    /// A reader has read so many bytes.
    Close(u64, bool),
    /// A process is killed and another one takes its place.
    Kill(u64),
    /// A process ends in order and another one takes its place.
    End(u64),
    /// A writer removes the name.
    Unlink(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let writer = 1..=WRITERS;
    let reader = WRITERS + 1..=WRITERS + READERS;
    let any = 1..=WRITERS + READERS;
    prop_oneof![
        6 => writer.clone().prop_map(Step::Write),
        6 => writer.clone().prop_map(Step::Written),
        4 => (0..4usize).prop_map(Step::Arrive),
        8 => reader.clone().prop_map(Step::Read),
        8 => (reader, prop::bool::weighted(0.8)).prop_map(|(who, seen)| Step::Close(who, seen)),
        1 => any.clone().prop_map(Step::Kill),
        1 => any.prop_map(Step::End),
        1 => writer.prop_map(Step::Unlink),
    ]
}

/// A generation, as the oracle knows it.
#[derive(Clone, Debug, Default)]
struct Made {
    area: Area,
    /// Processes that write it, or have and are not dead.
    open: BTreeSet<Process>,
    /// Processes that have had it open for writing.
    writers: BTreeSet<Process>,
    /// A writer on another node has written to it.
    is_away: bool,
    /// All have closed it, and its bytes are on their way.
    coming: bool,
    complete: bool,
    dead: bool,
    /// It died when others followed it.
    missing: bool,
    removed: bool,
    /// It was removed while it was open for writing.
    for_nobody: bool,
}

impl Made {
    /// It is neither complete nor lost.
    fn is_written(&self) -> bool {
        !self.complete && !self.dead && (self.coming || !self.open.is_empty())
    }
}

/// The next that a reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Nothing for now.
    Nothing,
    /// A generation, by index.
    Generation(usize),
    /// An error, because generations up to this one are missing.
    Missing(usize),
}

/// A reader, as the oracle knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    /// The generation that it has open, as an index plus one.
    open: usize,
    /// It waits.
    waits: bool,
    /// The last generation that it opened, and whether it read that.
    at: usize,
    seen: bool,
    /// The first generation that it could have got when it came, as an index.
    from: Option<usize>,
}

struct Model {
    registry: Registry,
    made: Vec<Made>,
    reads: Vec<Reads>,
    /// The process that plays each part.
    cast: Vec<Process>,
    handles: std::collections::BTreeMap<Process, Vec<Handle>>,
    freed: BTreeSet<Area>,
    last: u64,
    /// Some reader has come.
    is_read: bool,
    /// The process that opened the file for writing last.
    writer: Process,
}

impl Model {
    fn new() -> Self {
        let count = (WRITERS + READERS + 1) as usize;
        let mut model = Model {
            registry: Registry::default(),
            made: Vec::new(),
            reads: vec![Reads::default(); count],
            cast: vec![0; count],
            handles: Default::default(),
            freed: BTreeSet::new(),
            last: 0,
            is_read: false,
            writer: 0,
        };
        (1..count).for_each(|part| model.enter(part));
        model
    }

    /// A process that follows nobody takes a part.
    fn enter(&mut self, part: usize) {
        self.last += 1;
        self.cast[part] = self.last;
        self.reads[part] = Reads::default();
        let who = Who { job: self.last, ranks: 1, family: self.last, label: String::new() };
        self.registry.join(self.last, who);
        if part == AWAY.0 {
            self.registry.processes.lives_on(self.last, AWAY.1);
        }
    }

    fn settle(&mut self) {
        loop {
            let effects = self.registry.effects();
            for effect in &effects {
                match effect {
                    Effect::Free(area) => assert!(self.freed.insert(*area), "freed twice"),
                    Effect::Look(area) => {
                        let busy = |open: &Open| open.area == *area && open.write;
                        let coming = self.made.iter().any(|it| it.area == *area && it.coming);
                        if !coming && !self.registry.opens.values().any(busy) {
                            self.registry.commit(*area, true);
                        }
                    }
                    _ => {}
                }
            }
            if !effects.is_empty() {
                continue;
            }
            let Some((wait, answer)) = self.registry.ready() else { return };
            let part = wait as usize;
            assert!(self.reads[part].waits, "a wait that nobody made");
            self.reads[part].waits = false;
            let wanted = self.wanted(part);
            self.came(part, &answer, wanted);
        }
    }

    /// What a reader is to get now.
    fn wanted(&self, part: usize) -> Want {
        let reads = self.reads[part];
        if reads.at > 0 && !reads.seen {
            return Want::Generation(reads.at - 1);
        }
        // It has read one, and comes too late for one that all others were done with.
        let is_dropped = |made: &Made| made.complete && self.freed.contains(&made.area);
        let dropped = self.made.iter().rposition(is_dropped);
        if let Some(dropped) = dropped.filter(|index| reads.at > 0 && *index >= reads.at) {
            return Want::Missing(dropped);
        }
        let mut missing = None;
        for (index, made) in self.made.iter().enumerate().skip(reads.at) {
            // Generations that were given up before a reader came first are not for it.
            let is_gone = reads.at == 0 && is_dropped(made);
            if made.missing && reads.from.is_some_and(|from| index >= from) {
                missing = Some(index);
            }
            if made.for_nobody || made.dead || is_gone {
                continue;
            }
            return match missing {
                Some(index) => Want::Missing(index),
                None if made.complete => Want::Generation(index),
                None => Want::Nothing,
            };
        }
        missing.map_or(Want::Nothing, Want::Missing)
    }

    /// A reader opens the file, perhaps for the first time.
    fn comes(&mut self, part: usize) {
        let first = self.made.iter().position(|made| !self.freed.contains(&made.area));
        let from = if self.is_read { first.unwrap_or(self.made.len()) } else { 0 };
        self.reads[part].from.get_or_insert(from);
        self.is_read = true;
    }

    /// A reader got an answer other than to wait.
    fn came(&mut self, part: usize, answer: &Answer, wanted: Want) {
        match answer {
            Answer::Opened(opening) => {
                let index = self.made.iter().position(|made| made.area == opening.area).unwrap();
                assert_eq!(Want::Generation(index), wanted, "reader {part}");
                assert!(!self.freed.contains(&opening.area), "memory that was given up");
                let reads = &mut self.reads[part];
                if reads.at != index + 1 {
                    (reads.at, reads.seen) = (index + 1, false);
                }
                reads.open = index + 1;
                self.handles.entry(self.cast[part]).or_default().push(opening.handle);
            }
            Answer::Fail(libc::ESTALE) => {
                let Want::Missing(index) = wanted else { panic!("{wanted:?}, reader {part}") };
                (self.reads[part].at, self.reads[part].seen) = (index + 1, true);
            }
            Answer::Fail(libc::EIO) => {
                assert_eq!(wanted, Want::Nothing, "an error instead of a generation");
                let counts = |made: &Made| !made.removed || made.dead && !made.for_nobody;
                let last = self.made.iter().rposition(counts).unwrap();
                assert!(self.made[last].dead && self.reads[part].at <= last);
                let mut before = self.made[self.reads[part].at..last].iter();
                let comes = before.any(|made| made.is_written() && !made.for_nobody);
                assert!(!comes, "an error before a generation that comes");
                (self.reads[part].at, self.reads[part].seen) = (last + 1, true);
            }
            other => panic!("{other:?}"),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Write(part) => self.write(part as usize),
            Step::Written(part) => self.written(part as usize),
            Step::Arrive(number) => self.arrive(number),
            Step::Read(part) => self.read(part as usize),
            Step::Close(part, seen) => self.close(part as usize, seen),
            Step::Kill(part) => self.leave(part as usize, false),
            Step::End(part) => self.leave(part as usize, true),
            Step::Unlink(part) => self.unlink(part as usize),
        }
        self.settle();
        self.check();
    }

    fn write(&mut self, part: usize) {
        let process = self.cast[part];
        let ask =
            Ask { path: FILE.into(), write: true, create: true, truncate: true, ..Ask::default() };
        let Answer::Opened(opening) = self.registry.open(process, &ask) else { panic!() };
        let joins = self.made.last().filter(|made| made.is_written() && !made.coming);
        let joins = joins.filter(|made| !made.removed);
        match joins {
            Some(made) => assert_eq!(made.area, opening.area),
            None => self.made.push(Made { area: opening.area, ..Made::default() }),
        }
        self.writer = process;
        let made = self.made.last_mut().unwrap();
        made.open.insert(process);
        made.writers.insert(process);
        made.is_away |= part == AWAY.0;
        self.handles.entry(process).or_default().push(opening.handle);
    }

    fn written(&mut self, part: usize) {
        let process = self.cast[part];
        for handle in self.handles.remove(&process).unwrap_or_default() {
            self.registry.close(process, handle, 0, false);
        }
        self.finish(process);
    }

    fn arrive(&mut self, number: usize) {
        let mut coming = self.made.iter_mut().filter(|made| made.coming);
        let Some(made) = coming.nth(number) else { return };
        made.coming = false;
        made.complete = !made.for_nobody;
        let area = made.area;
        self.registry.commit(area, true);
    }

    /// A process writes no more.
    fn finish(&mut self, process: Process) {
        for made in &mut self.made {
            let closed = made.open.remove(&process) && made.open.is_empty() && !made.dead;
            made.coming |= closed && made.is_away;
            made.complete |= closed && !made.is_away && !made.removed;
        }
    }

    fn read(&mut self, part: usize) {
        let process = self.cast[part];
        if self.reads[part].open > 0 || self.reads[part].waits {
            return;
        }
        let ask = Ask { path: FILE.into(), ..Ask::default() };
        self.comes(part);
        let wanted = self.wanted(part);
        match self.registry.open(process, &ask) {
            Answer::Wait => {
                self.registry.waits.add(part as u64, process, ask);
                self.reads[part].waits = true;
            }
            answer => self.came(part, &answer, wanted),
        }
    }

    fn close(&mut self, part: usize, seen: bool) {
        let process = self.cast[part];
        if self.reads[part].open == 0 {
            return;
        }
        for handle in self.handles.remove(&process).unwrap_or_default() {
            self.registry.close(process, handle, if seen { 4096 } else { 4 }, false);
        }
        self.reads[part].open = 0;
        self.reads[part].seen |= seen;
    }

    /// Reads the open generation and opens the next; whether there is one.
    fn reads_another(&mut self, part: usize) -> bool {
        self.close(part, true);
        self.settle();
        let before = self.reads[part].at;
        self.read(part);
        self.settle();
        self.reads[part].open > 0 || self.reads[part].at > before
    }

    fn leave(&mut self, part: usize, orderly: bool) {
        let process = self.cast[part];
        self.registry.end(process, orderly);
        self.handles.remove(&process);
        if orderly {
            self.finish(process);
        } else {
            let mut is_followed = false;
            for made in self.made.iter_mut().rev() {
                let dies = made.is_written() && made.writers.contains(&process);
                made.dead |= dies;
                made.missing |= dies && is_followed && !made.for_nobody;
                made.coming &= !dies;
                made.open.remove(&process);
                is_followed |= made.is_written() || !self.freed.contains(&made.area) && !made.dead;
            }
            self.miss_next(process);
        }
        self.enter(part);
    }

    /// The generation that a killed writer would have made next is dead, too.
    fn miss_next(&mut self, process: Process) {
        let is_told = self.made.last().is_none_or(|made| made.dead && !made.for_nobody);
        if process == self.writer && !is_told && !self.made.iter().any(Made::is_written) {
            let area = Area::MAX - self.last;
            self.freed.insert(area);
            self.made.push(Made { area, dead: true, ..Made::default() });
        }
    }

    fn unlink(&mut self, part: usize) {
        let process = self.cast[part];
        let options = Options::default();
        // A lost one is no more: the name means the one before it.
        let is_there = |made: &&mut Made| !made.dead && !self.freed.contains(&made.area);
        let own = self.made.iter_mut().rev().find(is_there);
        let own = own.filter(|made| made.writers.contains(&process) && !made.removed);
        let result = self.registry.unlink(process, FILE, options);
        // A writer skips a generation of another program, as a reader does.
        self.is_read |= own.is_none() && result.is_ok();
        // With a later one of its own, those before it are removed, too.
        if let (Some(made), Ok(())) = (own, result) {
            made.removed = true;
            made.for_nobody = !made.open.is_empty();
        }
    }

    /// Readers wait only if there is nothing for them, and memory is kept as long as it is needed.
    fn check(&self) {
        for part in 0..self.reads.len() {
            let reads = self.reads[part];
            let waits_for_nothing = !reads.waits || self.wanted(part) == Want::Nothing;
            assert!(waits_for_nothing, "reader {part} waits");
            if reads.open > 0 {
                assert!(!self.freed.contains(&self.made[reads.open - 1].area));
            }
        }
        let alive = self.made.iter().filter(|made| !self.freed.contains(&made.area)).count();
        assert_eq!(alive, self.registry.files.generations.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_end_as_the_oracle_says(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let mut model = Model::new();
        for step in steps {
            model.apply(step);
        }
        // All read the generations that are left, and end: then nothing is left.
        for part in 1..=WRITERS as usize {
            model.written(part);
            model.settle();
        }
        while model.made.iter().any(|made| made.coming) {
            model.apply(Step::Arrive(0));
        }
        for part in 1..model.cast.len() {
            let process = model.cast[part];
            while part > WRITERS as usize && model.reads_another(part) {}
            model.registry.end(process, true);
            model.settle();
        }
        prop_assert!(model.registry.opens.is_empty() && model.registry.waits.all.is_empty());
        prop_assert!(model.registry.processes.is_empty());
    }
}

//! The generations of one name, and the one that an open gets.

use super::{
    Area, Caller, Generation, Generations, Job, Name, Options, Position, Processes, Stored,
};
use aggio_config::settings::couple::{Pick, WriterDeath};

/// The result of looking for a generation to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The generation that its own program writes or wrote.
    Own(Area),
    /// The generation that it is to read.
    Next(Area),
    /// Nothing yet.
    Wait,
    /// The writer of this generation died.
    Dead(u64),
    /// The generation up to this one that it was to read was given up.
    Lost(u64),
    /// The generation that its own program wrote was dropped.
    Dropped,
    /// The generation that it wrote and closed was lost, because another process died.
    OwnLost(Area),
}

/// A name and its generations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<'a> {
    pub(super) name: &'a Name,
    pub(super) generations: &'a Generations,
}

impl<'a> Sequence<'a> {
    /// The generations after number `at`.
    fn after(self, at: u64) -> impl DoubleEndedIterator<Item = (Area, &'a Generation)> + use<'a> {
        let areas = self.name.generations.range(at + 1..).map(|(_, area)| *area);
        areas.filter_map(move |area| Some((area, self.generations.get(&area)?)))
    }

    /// The newest generation.
    pub(super) fn newest(self) -> Option<(Area, &'a Generation)> {
        self.after(0).next_back()
    }

    /// Whether one of the generations is being written.
    pub(super) fn is_written(self) -> bool {
        self.after(0).any(|(_, one)| !one.is_complete())
    }

    /// The newest generation, if a process wrote and closed it, and does not know that it is lost.
    pub(super) fn own_loss(self, caller: &Caller) -> Option<Area> {
        let dead = self.name.dead.as_ref().filter(|dead| dead.writers.contains(&caller.process))?;
        let is_newer = self.newest().is_none_or(|(_, newest)| newest.number < dead.number);
        is_newer.then_some(dead.area)
    }

    /// Looks for the generation that an open for reading gets now.
    pub(super) fn choose(self, caller: &Caller, options: &Options) -> Choice {
        let (name, job) = (self.name, caller.job);
        if let Some(area) = self.own_loss(caller) {
            return Choice::OwnLost(area);
        }
        if let Some((area, newest)) = self.newest()
            && newest.is_by(job)
            && !newest.unlinked
        {
            return Choice::Own(area);
        }
        if name.is_dropped() && name.writer == Some(job) && name.generations.is_empty() {
            return Choice::Dropped;
        }
        let position = name.position(caller);
        self.again(job, &position).unwrap_or_else(|| self.further(caller, options, position.at))
    }

    /// The generation at the position of a reader, if it gets that again.
    fn again(self, job: Job, position: &Position) -> Option<Choice> {
        let looked_only = || position.at > 0 && !self.name.was_seen(job, position);
        if position.open == 0 && !looked_only() {
            return None;
        }
        let area = *self.name.generations.get(&position.at)?;
        let one = self.generations.get(&area)?;
        let is_hidden = one.early.step && one.early.records.is_none() && !one.is_complete();
        Some(if is_hidden { Choice::Wait } else { Choice::Next(area) })
    }

    /// The generation after number `at` that a reader gets.
    fn further(self, caller: &Caller, options: &Options, at: u64) -> Choice {
        let (name, job) = (self.name, caller.job);
        let is_known = name.knows(caller);
        let mut ready = self.ready(job, at, options.at_step);
        let found = match options.pick {
            Pick::Next if is_known && at > 0 && name.lost > at => return Choice::Lost(name.lost),
            Pick::Next => match self.missing(job, at) {
                Some(number) => return Choice::Lost(number),
                None if self.is_overtaken(job, at, options.at_step) => return Choice::Wait,
                None => ready.next().map(|(area, _)| area),
            },
            // All ranks of a collective open get the same one.
            Pick::Latest => match name.open_elsewhere(job, at) {
                None if self.is_one_coming(job, at, options.at_step) => return Choice::Wait,
                shared => self.latest(job, at, shared, options.at_step),
            },
        };
        found.map_or_else(|| self.nothing(caller, options, at), Choice::Next)
    }

    /// The generations after number `at` that are for readers of another program, now or later.
    fn others(
        self,
        job: Job,
        at: u64,
    ) -> impl DoubleEndedIterator<Item = &'a Generation> + use<'a> {
        let all = self.after(at).map(|(_, one)| one);
        all.filter(move |one| !one.is_for_nobody && !one.is_by(job))
    }

    /// The newest generation that is missing between number `at` and the one that a reader gets
    /// next. Those before its program came are not for it.
    fn missing(self, job: Job, at: u64) -> Option<u64> {
        let next = self.others(job, at).next().map_or(u64::MAX, |one| one.number);
        let from = self.name.first_for(job).max(at + 1);
        self.name.missing.range(from.min(next)..next).next_back().copied()
    }

    /// The generations after number `at` that readers of another program get now.
    fn ready(
        self,
        job: Job,
        at: u64,
        at_step: bool,
    ) -> impl DoubleEndedIterator<Item = (Area, &'a Generation)> + use<'a> {
        let is_it = move |one: &Generation| one.is_ready(at_step) && !one.is_by(job);
        self.after(at).filter(move |(_, one)| is_it(one))
    }

    /// The newest generation that a reader at number `at` gets now: `shared`, if other processes of
    /// its program have that open.
    fn latest(self, job: Job, at: u64, shared: Option<u64>, at_step: bool) -> Option<Area> {
        let area = |number| self.name.generations.get(&number).copied();
        let newest = || self.ready(job, at, at_step).next_back().map(|(area, _)| area);
        shared.and_then(area).or_else(newest).or_else(|| area(at).filter(|_| at > 0))
    }

    /// Whether a generation after number `at` that its writers have closed is about to be the
    /// newest complete one.
    fn is_one_coming(self, job: Job, at: u64, at_step: bool) -> bool {
        let mut newer = self.others(job, at).rev().take_while(|one| !one.is_ready(at_step));
        newer.any(Generation::is_coming)
    }

    /// The answer to a reader for which there is no generation.
    fn nothing(self, caller: &Caller, options: &Options, at: u64) -> Choice {
        let Some(dead) = &self.name.dead else { return Choice::Wait };
        let knows = dead.number <= at && !dead.untold.contains(&caller.process);
        // Another one comes before that.
        let comes = self.others(caller.job, at).any(|one| one.number < dead.number);
        let waits = options.death == WriterDeath::Wait || knows || comes;
        if waits { Choice::Wait } else { Choice::Dead(dead.number) }
    }

    /// Whether the generation after `at` that a reader is to get is closed and not complete yet,
    /// and another one has begun.
    fn is_overtaken(self, job: Job, at: u64, at_step: bool) -> bool {
        let last = self.newest().map(|(_, newest)| newest.number);
        let next = self.others(job, at).next();
        next.is_some_and(|one| !one.is_ready(at_step) && last != Some(one.number))
    }

    /// The newest generation that a process of the node may read.
    pub(super) fn newest_readable(self, node: u64) -> Option<Area> {
        // A generation that is written elsewhere cannot be copied.
        let is_shown = |one: &Generation| one.early.published && !one.is_elsewhere(node);
        let is_it = |one: &Generation| !one.unlinked && (one.is_complete() || is_shown(one));
        self.after(0).rev().find(|(_, one)| is_it(one)).map(|(area, _)| area)
    }

    /// The generation that the name means for a process: the one that it has written, or else the
    /// one that it would read.
    pub(super) fn meant(self, caller: &Caller, options: &Options) -> Option<Area> {
        match self.choose(caller, options) {
            Choice::Own(area) | Choice::Next(area) => Some(area),
            // Closed by its writer, and complete as soon as that is seen.
            Choice::Wait => {
                let newest = self.newest().filter(|(_, newest)| !newest.unlinked);
                let is_closed = |one: &Generation| !one.is_complete() && !one.is_open_to_write();
                let closed = newest.filter(|(_, newest)| is_closed(newest)).map(|(area, _)| area);
                let (job, at) = (caller.job, self.name.position(caller).at);
                let latest = || self.latest(job, at, None, options.at_step);
                closed.or_else(|| latest().filter(|_| options.pick == Pick::Latest))
            }
            Choice::Dead(_) | Choice::Lost(_) | Choice::Dropped | Choice::OwnLost(_) => None,
        }
    }

    /// The complete generations that nobody needs any more, the newest first.
    pub(super) fn unneeded(self, processes: &Processes) -> Vec<(Area, Stored)> {
        let complete = self.after(0).rev().filter(|(_, one)| one.is_complete()).enumerate();
        let unneeded = complete.filter(|(age, (area, one))| {
            let is_alive = || processes.has_any(&one.writers.jobs);
            !self.generations.is_held(*area) && self.name.is_done_with(one, *age, is_alive())
        });
        unneeded.map(|(_, (area, one))| (area, one.stored)).collect()
    }

    /// Whether all readers are done with a complete generation, although its writer might open it
    /// again.
    pub(super) fn is_dispensable(self, area: Area, one: &Generation) -> bool {
        let age = self.after(one.number).filter(|(_, newer)| newer.is_complete()).count();
        let is_free = one.is_complete() && !self.generations.is_held(area);
        is_free && self.name.is_read_by_all(one, age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Dead, State};

    const READER: Caller = Caller { process: 9, job: 9, ranks: 1, family: Some(9), node: 0 };

    /// A name with generations 1, 2, ... of program 1 in these states, in memory 10, 20, ...
    fn files(states: &[State]) -> (Name, Generations) {
        let (mut name, mut generations) = (Name::default(), Generations::default());
        for (area, state) in (1..).map(|number| 10 * number).zip(states) {
            let number = name.add(area);
            let mut one = Generation { number, state: *state, ..Generation::default() };
            one.writers.jobs.insert(1);
            generations.insert(area, one);
        }
        (name, generations)
    }

    fn choose(name: &Name, generations: &Generations, caller: &Caller, pick: Pick) -> Choice {
        let options = Options { pick, ..Options::default() };
        Sequence { name, generations }.choose(caller, &options)
    }

    #[test]
    fn a_reader_gets_the_next_or_the_latest_complete_generation_and_a_writer_its_own() {
        let (mut name, generations) = files(&[State::Complete, State::Complete, State::Writing]);
        let writer = Caller { process: 1, job: 1, ..READER };
        let all = |name: &Name| {
            let chosen = |caller, pick| choose(name, &generations, caller, pick);
            [
                chosen(&READER, Pick::Next),
                chosen(&READER, Pick::Latest),
                chosen(&writer, Pick::Next),
            ]
        };
        assert_eq!(all(&name), [Choice::Next(10), Choice::Next(20), Choice::Own(30)]);
        name.read_on(&READER, 1);
        assert_eq!(choose(&name, &generations, &READER, Pick::Latest), Choice::Next(10));
        name.stop_reading(9, 9, true);
        assert_eq!(all(&name), [Choice::Next(20), Choice::Next(20), Choice::Own(30)]);
        name.pass(&READER, 2);
        assert_eq!(all(&name)[..2], [Choice::Wait, Choice::Next(20)]);
    }

    #[test]
    fn a_rank_gets_what_another_has_open_although_a_later_one_is_complete() {
        let (mut name, generations) = files(&[State::Complete, State::Complete]);
        let other = Caller { process: READER.process + 1, ..READER };
        let latest = |name: &Name| choose(name, &generations, &READER, Pick::Latest);
        name.read_on(&other, 1);
        assert_eq!(latest(&name), Choice::Next(10));
        name.stop_reading(other.process, other.job, true);
        assert_eq!(latest(&name), Choice::Next(20));
        name.pass(&READER, 2);
        name.read_on(&other, 1);
        assert_eq!(latest(&name), Choice::Next(20), "none before its own");
    }

    #[test]
    fn a_reader_of_the_latest_waits_for_one_that_is_closed_and_not_for_one_that_is_open() {
        use State::{Complete, Writing};
        let latest = |states: &[State], coming: u64| {
            let (name, mut generations) = files(states);
            generations.get_mut(&30).into_iter().for_each(|one| _ = one.writers.open.insert(5));
            generations.get_mut(&coming).unwrap().writers.are_done = true;
            let sequence = Sequence { name: &name, generations: &generations };
            let options = Options { pick: Pick::Latest, ..Options::default() };
            (sequence.choose(&READER, &options), sequence.meant(&READER, &options))
        };
        assert_eq!(latest(&[Complete, Writing], 20), (Choice::Wait, Some(20)));
        assert_eq!(latest(&[Complete, Writing, Writing], 20), (Choice::Wait, Some(10)));
        assert_eq!(latest(&[Writing, Complete, Writing], 10), (Choice::Next(20), Some(20)));
    }

    #[test]
    fn a_reader_learns_of_losses_and_deaths_behind_its_position() {
        let (mut name, generations) = files(&[]);
        let choice = |name: &Name| choose(name, &generations, &READER, Pick::Next);
        assert_eq!(choice(&name), Choice::Wait);
        name.dead = Some(Dead::unread(1, "p".into()));
        assert_eq!(choice(&name), Choice::Dead(1));
        name.pass(&READER, 1);
        assert_eq!(choice(&name), Choice::Wait);
        name.lost = 3;
        assert_eq!(choice(&name), Choice::Lost(3));
        (name.last, name.dropped, name.writer) = (3, 3, Some(9));
        assert_eq!(choice(&name), Choice::Dropped);
    }

    #[test]
    fn a_closed_generation_is_waited_for_if_a_later_one_is_complete() {
        let (name, generations) = files(&[State::Writing, State::Complete]);
        assert_eq!(choose(&name, &generations, &READER, Pick::Next), Choice::Wait);
        assert_eq!(choose(&name, &generations, &READER, Pick::Latest), Choice::Next(20));
        let sequence = Sequence { name: &name, generations: &generations };
        assert_eq!(sequence.meant(&READER, &Options::default()), None);
        assert!(sequence.is_written() && sequence.newest_readable(0) == Some(20));
    }
}

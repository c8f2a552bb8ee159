//! A process that reads the generations of a file.

use super::group::Target;
use super::model::Expected;
use super::open_file::{How, OpenFile};
use super::program::Program;
use crate::protocol::Request;
use aggio_config::settings::couple::Pick;
use std::rc::Rc;

/// Fewer bytes are a look at the beginning of a file.
const LOOK: u64 = 2048;

/// A program that reads the `last` generations of a file.
pub(super) struct Reader {
    pub(super) program: Program,
    pub(super) target: Rc<Target>,
    pub(super) last: u64,
    pub(super) mpi: bool,
    /// It comes when this generation has begun.
    pub(super) late: u64,
}

/// The generation of the last open: its number, 0 before the first, and whether it was read.
#[derive(Clone, Copy)]
struct Position {
    at: u64,
    seen: bool,
    /// An answer has said that the next one is lost.
    lost: bool,
}

impl Reader {
    pub(super) async fn run(self) {
        self.program.does("comes late");
        let begun = || self.target.file.generations.borrow().len() as u64;
        self.program.until(|| begun() >= self.late).await;
        let mut position = Position { at: 0, seen: true, lost: false };
        while position.at < self.last || !position.seen {
            self.program.pause().await;
            let Some((open, is_early)) = self.open(&mut position).await else { break };
            self.read(open, is_early, &mut position).await;
        }
        self.program.order(Request::Goodbye).await.unwrap();
    }

    /// Opens the next generation, and whether it may not have been complete then; `None` if there
    /// will be none for this reader.
    async fn open(&self, position: &mut Position) -> Option<(OpenFile, bool)> {
        let (path, options) = (self.target.path.clone(), self.target.options.clone());
        let file = &self.target.file;
        loop {
            let is_first = position.at == 0 && !position.lost;
            // Nobody keeps anything for a reader that nobody knows.
            let may_be_gone = is_first && file.was_read(self.last);
            let blocking = !may_be_gone && !self.program.chance().once_in(4);
            let (mpi, read, path) = (self.mpi, true, path.clone());
            let options = options.clone();
            let how = How { path: path.clone(), options, mpi, read, blocking, ..How::default() };
            file.coming.set(file.coming.get() + usize::from(is_first && blocking));
            let before = self.program.shared.complete(&path);
            let closed = file.newest_left();
            let opened = OpenFile::open(&self.program, &how).await;
            let after = self.program.shared.complete(&path);
            file.coming.set(file.coming.get() - usize::from(is_first && blocking));
            match opened {
                Ok(open) => {
                    let newest = before.last().copied().unwrap_or(0).max(closed);
                    self.check_number(&open, *position, (newest, after.last()));
                    let is_early = !before.contains(&open.generation);
                    return Some((open, is_early && self.target.options.at_sync));
                }
                Err(libc::EAGAIN) if !blocking => {
                    let is_there = before.contains(&(position.at + 1)) && position.seen;
                    let is_kept = after.contains(&(position.at + 1)) && !is_first;
                    let is_latest = self.target.options.pick == Pick::Latest;
                    let newest = before.last().copied().unwrap_or(0);
                    let waits = is_latest && file.is_closed_after(newest);
                    let is_wrong = is_there && is_kept && !waits;
                    assert!(!is_wrong, "{}: nothing to read", self.program.name);
                    if may_be_gone {
                        return None;
                    }
                    self.wait_for_news().await;
                }
                Err(libc::ESTALE) => {
                    let keep = u64::from(self.target.options.keep);
                    let newest = after.last().copied().unwrap_or(0);
                    let name = &self.program.name;
                    let is_due = keep > 0 && newest > position.at + keep && !position.lost;
                    assert!(is_due, "{name}: ESTALE behind {}, {newest} is there", position.at);
                    (position.lost, position.seen) = (true, true);
                }
                Err(error) => panic!("{}: the open fails: {error}", self.program.name),
            }
        }
    }

    /// Waits until something has become complete, or nothing happens.
    async fn wait_for_news(&self) {
        let known = self.program.shared.complete(&self.target.path);
        let calms = self.program.shared.calms.get();
        let shared = &self.program.shared;
        shared.awaits_calm.set(shared.awaits_calm.get() + 1);
        self.program.does("waits for news");
        let is_new = || shared.complete(&self.target.path) != known;
        self.program.until(|| is_new() || shared.calms.get() > calms).await;
        shared.awaits_calm.set(shared.awaits_calm.get() - 1);
    }

    /// Checks that an open got the right generation; the newest ones that all writers had closed
    /// were these before and after it.
    fn check_number(
        &self,
        open: &OpenFile,
        position: Position,
        (before, after): (u64, Option<&u64>),
    ) {
        let (name, number, Position { at, seen, lost }) =
            (&self.program.name, open.generation, position);
        let file = &self.target.file;
        let generation = file.get(number);
        let generation = generation.unwrap_or_else(|| panic!("{name}: nobody made {number}"));
        let is_early = self.target.options.at_sync && generation.is_readable();
        assert!(generation.is_done.get() || is_early, "{name}: {number} is being written");
        let keep = u64::from(self.target.options.keep);
        let is_dropped = |one: u64| {
            file.was_read(one) || keep > 0 && after.is_some_and(|last| one + keep <= *last)
        };
        // It gets a generation again that it has only looked at.
        let next = if seen { at + 1 } else { at.max(1) };
        match self.target.options.pick {
            Pick::Latest => {
                let before = before.max(at);
                let is_newest = number >= before && (is_early || Some(&number) <= after);
                let is_it = is_newest || !seen && number == at;
                assert!(is_it, "{name}: {number} is not the latest: {before} to {after:?}");
            }
            Pick::Next if at == 0 || lost || !seen && keep > 0 => {
                let kept = (next..number).find(|one| !is_dropped(*one));
                assert!(kept.is_none() && number >= next, "{name}: {number}, but {kept:?} is kept");
            }
            Pick::Next => assert_eq!(number, next, "{name}: the next one"),
        }
    }

    async fn read(&self, mut open: OpenFile, is_early: bool, position: &mut Position) {
        let (number, chance) = (open.generation, self.program.chance());
        let generation = self.target.file.get(number).unwrap();
        if is_early {
            self.watch(&mut open, &generation).await;
        }
        let only_looks = chance.once_in(8);
        let pieces = if only_looks { 1 } else { 1 + chance.of(0..4) };
        for piece in 0..pieces {
            let size = generation.bytes.borrow().all.len();
            let (mut at, mut len) = (chance.of(0..size + 1), 1 + chance.of(0..size + 100));
            if only_looks {
                (at, len) = (0, 1 + chance.of(0..100));
            } else if chance.once_in(2) {
                len = 1 + len / 100;
            }
            if !only_looks && piece + 1 == pieces && chance.once_in(2) {
                (at, len) = (0, size + 10);
            }
            let found = open.read(&self.program, at as u64, len as u64).await.unwrap();
            self.compare(&generation, number, at, len, &found);
            self.program.pause().await;
        }
        let size = generation.bytes.borrow().all.len() as u64;
        assert_eq!(open.size(), size, "{}: size of {number}", self.program.name);
        let seen = open.moved >= LOOK || open.moved >= size;
        let again = position.at == number && position.seen;
        *position = Position { at: number, seen: seen || again, lost: false };
        if number == self.last {
            // Those that come for the first time find it.
            self.program.does("lets others come first");
            self.program.until(|| self.target.file.coming.get() == 0).await;
        }
        generation.is_read.set(generation.is_read.get() || seen);
        open.close(&self.program).await.unwrap();
    }

    /// Reads a file that is being written, until that is complete.
    async fn watch(&self, open: &mut OpenFile, generation: &Expected) {
        while !generation.is_done.get() {
            let size = open.size();
            let found = open.read(&self.program, 0, size).await.unwrap();
            if let Some(at) = generation.bytes.borrow().never_was(0, &found) {
                let (name, number, found) = (&self.program.name, open.generation, found[at]);
                panic!("{name}: byte {at} of {number} is {found}, which it never was");
            }
            let mut turns = self.program.chance().of(0..30);
            let is_done = || generation.is_done.get();
            self.program.does("watches a file");
            self.program
                .until(|| {
                    turns = turns.saturating_sub(1);
                    turns == 0 || is_done()
                })
                .await;
        }
        self.program.calm().await;
    }

    fn compare(&self, generation: &Expected, number: u64, at: usize, len: usize, found: &[u8]) {
        let (name, wanted) = (&self.program.name, &generation.bytes.borrow().all);
        let end = wanted.len().min(at + len);
        let wanted = &wanted[at.min(end)..end];
        let mut both = (at..).zip(wanted.iter().zip(found));
        if let Some((at, (wanted, found))) = both.find(|(_, (one, other))| one != other) {
            panic!("{name}: byte {at} of generation {number} is {found}, not {wanted}");
        }
        let (wanted, found) = (wanted.len(), found.len());
        assert_eq!(found, wanted, "{name}: bytes at {at} of generation {number}");
    }
}

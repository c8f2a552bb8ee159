//! The memory of generations as it comes and goes, and how much there is of it.

use super::Agent;
use crate::registry::{Area, State};
use crate::spares::Spare;
use std::io;

impl Agent {
    /// Makes the memory of a generation.
    pub(super) fn make(&mut self, area: Area, mode: u32, copy_of: Option<Area>) -> io::Result<()> {
        if let Some(file) = self.survivors.file(area, &self.registry)? {
            return self.areas.make_of(Some(Spare::from(file)), area, mode, copy_of);
        }
        // Holes tell which records are there, so that memory in advance is not for those.
        let generation = self.registry.generations.get(&area).filter(|one| !one.step);
        let spare = generation.and_then(|generation| {
            let path = &generation.path;
            let budget = self.registry.names.get(path).map_or(0, |name| name.options.budget);
            let budget = if budget > 0 { budget } else { self.limit };
            let expected = self.spares.begin(area, path, budget);
            self.pages.file(expected).or_else(|| self.spares.take(area))
        });
        self.areas.make_of(spare, area, mode, copy_of)
    }

    /// Frees the memory of a generation, and makes as much ready for the next one if its pages
    /// are small.
    pub(super) fn free(&mut self, area: Area) {
        self.survivors.give_up(area);
        if let Some(remains) = self.areas.take(area) {
            // Of what is ready there is room beside the next one.
            let all = self.all_memory() + self.growth() + 2 * remains.bytes;
            let again = self.pages.huge(remains.bytes).is_none() && self.has_room_for(area, all);
            self.spares.end(area, remains, again);
            self.note_peak();
        }
    }

    /// Whether the rule of a generation allows so many bytes in all.
    fn has_room_for(&self, area: Area, bytes: u64) -> bool {
        let budget = self.spares.budget(area);
        budget.is_none_or(|budget| budget == 0 || bytes <= budget)
    }

    /// Tells the registry how much memory there is. What is ready for generations to come has to
    /// make room for those that are there, and for one of `next` bytes.
    pub(super) fn measure(&mut self, next: u64) {
        let used = self.areas.bytes() + self.growth() + self.shares();
        self.spares.shrink(used + self.spares.leaving() + next);
        let leaving = self.spares.leaving() + self.spares.making();
        self.registry.measure(used, leaving, self.limit);
        self.note_peak();
    }

    /// The same before a program opens a file for writing.
    pub(super) fn measure_for(&mut self, path: &[u8]) {
        self.measure(self.registry.expected(path, None));
    }

    /// The same for writers that wait.
    pub(super) fn measure_for_waits(&mut self) {
        let next = self.waits.written().map(|path| self.registry.expected(path, None)).max();
        if let Some(next) = next {
            self.measure(next);
        }
    }

    /// Bytes that generations which are being written are expected to get.
    fn growth(&self) -> u64 {
        let written = self.registry.generations.iter();
        let written = written.filter(|(_, one)| one.state == State::Writing && one.expected > 0);
        let rest = written.map(|(area, one)| {
            let has = self.areas.stat(*area, 0).map_or(0, |stat| 512 * stat.blocks);
            one.expected.saturating_sub(has)
        });
        rest.sum()
    }

    /// Bytes of complete generations that another node has beyond those of this one: the budget
    /// counts the node with most of each.
    fn shares(&self) -> u64 {
        let rest = self.registry.generations.iter().map(|(area, one)| {
            let has = self.areas.stat(*area, 0).map_or(0, |stat| 512 * stat.blocks);
            one.in_memory().saturating_sub(has)
        });
        rest.sum()
    }

    /// Bytes of memory of all generations: those that are there, were, and will be.
    pub(super) fn all_memory(&self) -> u64 {
        self.areas.bytes() + self.spares.leaving() + self.spares.bytes()
    }

    /// Notes how much memory there is.
    pub(super) fn note_peak(&mut self) {
        self.peak = self.peak.max(self.all_memory());
    }
}

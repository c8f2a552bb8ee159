//! The memory of generations as it comes and goes, and how much there is of it.

use super::survive::Survivors;
use super::waits::Waits;
use crate::areas::Areas;
use crate::huge_pages::Pages;
use crate::registry::{Area, Registry, State};
use crate::spares::{Spare, Spares};
use aggio_base::spare_memory;
use std::io;

/// The memory of all generations of an agent.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) areas: Areas,
    pub(super) spares: Spares,
    pub(super) pages: Pages,
    /// Bytes that generations may have where no rule says so.
    pub(super) limit: u64,
    /// Bytes of all generations that became complete.
    pub(super) written: u64,
    /// Bytes of memory that there were at most.
    pub(super) peak: u64,
}

impl Memory {
    /// None.
    ///
    /// # Errors
    /// The system has no memory files.
    pub(super) fn new() -> io::Result<Self> {
        let (areas, spares, pages) = (Areas::new()?, Spares::default(), Pages::default());
        let limit = spare_memory::limit().unwrap_or(0) / 2;
        Ok(Self { areas, spares, pages, limit, written: 0, peak: 0 })
    }

    /// Makes the memory of a generation.
    pub(super) fn make(
        &mut self,
        area: Area,
        (mode, copy_of): (u32, Option<Area>),
        registry: &Registry,
        survivors: &mut Survivors,
    ) -> io::Result<()> {
        if let Some(file) = survivors.file(area, registry)? {
            return self.areas.make_of(Some(Spare::from(file)), area, mode, copy_of);
        }
        // Holes tell which records are there, so that memory in advance is not for those.
        let generation = registry.files.generations.get(&area).filter(|one| !one.early.step);
        let spare = generation.and_then(|generation| {
            let path = &generation.path;
            let budget = registry.files.names.get(path).map_or(0, |name| name.options.budget);
            let budget = if budget > 0 { budget } else { self.limit };
            let expected = self.spares.begin(area, path, budget);
            self.pages.file(expected).or_else(|| self.spares.take(area))
        });
        self.areas.make_of(spare, area, mode, copy_of)
    }

    /// Frees the memory of a generation, and makes as much ready for the next one if its pages
    /// are small.
    pub(super) fn free(&mut self, area: Area, registry: &Registry) {
        if let Some(remains) = self.areas.take(area) {
            // For prepared memory there is room beside the next one.
            let all = self.all_memory() + self.growth(registry) + 2 * remains.bytes;
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
    fn measure(&mut self, next: u64, registry: &mut Registry) {
        let used = self.areas.bytes() + self.growth(registry) + self.shares(registry);
        self.spares.shrink(used + self.spares.leaving() + next);
        let leaving = self.spares.leaving() + self.spares.making();
        registry.files.room.measure(used, leaving, self.limit);
        self.note_peak();
    }

    /// The same before a program opens a file for writing.
    pub(super) fn measure_for(&mut self, path: &[u8], registry: &mut Registry) {
        self.measure(registry.files.expected(path, None), registry);
    }

    /// The same for writers that wait.
    pub(super) fn measure_for_waits(&mut self, waits: &Waits, registry: &mut Registry) {
        let next = waits.written().map(|path| registry.files.expected(path, None)).max();
        if let Some(next) = next {
            self.measure(next, registry);
        }
    }

    /// Bytes that generations which are being written are expected to get.
    fn growth(&self, registry: &Registry) -> u64 {
        let written = registry.files.generations.iter();
        let written = written.filter(|(_, one)| one.state == State::Writing && one.expected > 0);
        let rest = written.map(|(area, one)| {
            let has = self.areas.stat(*area, 0).map_or(0, |stat| 512 * stat.blocks);
            one.expected.saturating_sub(has)
        });
        rest.sum()
    }

    /// Bytes of complete generations that another node has beyond those of this one: the budget
    /// counts the node with most of each.
    fn shares(&self, registry: &Registry) -> u64 {
        let rest = registry.files.generations.iter().map(|(area, one)| {
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

    /// Frees the memory of generations that have moved when nobody has it open any more.
    pub(super) fn free_left(&mut self, registry: &Registry) {
        let opens = &registry.opens;
        let is_open =
            |area: Area, before: u64| opens.range(..before).any(|(_, open)| open.area == area);
        for remains in self.areas.left(is_open) {
            self.spares.release(remains);
        }
    }
}

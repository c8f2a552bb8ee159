//! The memory of generations as it comes and goes, and how much there is of it.

use super::Agent;
use crate::huge::Huge;
use crate::registry::Area;
use crate::spares::Spare;
use aggio_base::log;
use aggio_base::log::Level;
use std::io;

/// Smaller files do without huge pages.
const LARGE: u64 = 1 << 20;

/// Whether there are files with huge pages.
#[derive(Debug, Default)]
pub(super) enum Pages {
    /// Nobody has needed any yet.
    #[default]
    Unknown,
    Huge(Huge),
    Small,
}

impl Pages {
    /// Where files of so many bytes have huge pages.
    fn huge(&mut self, bytes: u64) -> Option<&Huge> {
        if bytes < LARGE {
            return None;
        }
        if matches!(self, Pages::Unknown) {
            *self = Huge::new().map_or_else(
                |error| {
                    log!(Level::Debug, "agent: there are no files with huge pages: {error}");
                    Pages::Small
                },
                Pages::Huge,
            );
        }
        match self {
            Pages::Huge(huge) if bytes >= 2 * huge.page => Some(huge),
            _ => None,
        }
    }
}

impl Agent {
    /// Makes the memory of a generation.
    pub(super) fn make(&mut self, area: Area, mode: u32, copy_of: Option<Area>) -> io::Result<()> {
        // Holes tell which records are there, so that memory in advance is not for those.
        let generation = self.registry.generations.get(&area).filter(|one| !one.step);
        let spare = generation.and_then(|generation| {
            let path = &generation.path;
            let budget = self.registry.names.get(path).map_or(0, |name| name.options.budget);
            let budget = if budget > 0 { budget } else { self.limit };
            let expected = self.spares.begin(area, path, budget);
            let huge = self.pages.huge(expected);
            let huge = huge.and_then(|huge| Some((huge.file().ok()?, huge.page)));
            match huge {
                Some((file, slack)) => Some(Spare { slack, ..Spare::from(file) }),
                None => self.spares.take(area),
            }
        });
        self.areas.make_of(spare, area, mode, copy_of)
    }

    /// Frees the memory of a generation, and makes as much ready for the next one if its pages
    /// are small.
    pub(super) fn free(&mut self, area: Area) {
        if let Some(remains) = self.areas.take(area) {
            let again = self.pages.huge(remains.bytes).is_none();
            self.spares.end(area, remains, again);
        }
    }

    /// Tells the registry how much memory there is. What is ready for generations to come has to
    /// make room for those that are there.
    pub(super) fn measure(&mut self) {
        let held = self.areas.bytes();
        self.spares.shrink(held + self.spares.leaving());
        self.registry.measure(held + self.spares.leaving(), self.limit);
    }
}

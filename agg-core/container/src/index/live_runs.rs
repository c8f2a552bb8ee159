//! The content of frames, collected in memory while logs are scanned: runs that grow, and the
//! truncations and holes between them.

use crate::format::{Event, Run};
use crate::index::runs::Runs;
use crate::index::superseded_runs;
use aggio_base::Extent;
use std::ops::Range;

/// Runs that are searched one by one before they are sorted with the others.
const FRESH: usize = 256;

/// The truncations and holes that matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    list: Vec<Event>,
}

impl Events {
    /// Adds an event, unless another one covers it, and removes those that it covers.
    pub(crate) fn add(&mut self, event: Event) {
        let covers = |a: &Event, b: &Event| {
            let whole = a.extent.offset <= b.extent.offset && a.extent.end() >= b.extent.end();
            a.seq >= b.seq && whole && (a.sets_size || !b.sets_size)
        };
        if self.list.iter().any(|old| covers(old, &event)) {
            return;
        }
        self.list.retain(|old| !covers(&event, old));
        self.list.push(event);
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Event] {
        &self.list
    }

    /// The last one that set the size.
    pub(crate) fn last_truncate(&self) -> Option<Event> {
        self.list.iter().filter(|event| event.sets_size).max_by_key(|event| event.seq).copied()
    }
}

/// Runs of logs that may still grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    sorted: Runs,
    sorted_len: usize,
    /// Runs that no read needs.
    superseded: Vec<Run>,
    fresh: Vec<Run>,
    /// The last run of each log.
    open: Vec<Option<Run>>,
}

impl Live {
    /// Takes in the next run of its log.
    pub(crate) fn add(&mut self, run: Run) {
        let log = run.log as usize;
        if self.open.len() <= log {
            self.open.resize(log + 1, None);
        }
        if let Some(open) = &mut self.open[log] {
            if open.extend(&run) {
                return;
            }
            match open.pair() {
                Some(pair) => self.fresh.extend(pair),
                None => self.fresh.push(*open),
            }
        }
        self.open[log] = Some(run);
        if self.fresh.len() > FRESH.max(self.sorted_len / 2) {
            self.sort();
        }
    }

    fn sort(&mut self) {
        let mut all: Vec<Run> = std::mem::take(&mut self.sorted).into_all();
        all.append(&mut self.fresh);
        let (needed, mut superseded) = superseded_runs::split(all);
        self.superseded.append(&mut superseded);
        self.sorted_len = needed.len();
        self.sorted = Runs::new(needed);
    }

    /// All runs, those of one log not necessarily in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Run> {
        let sorted = self.sorted.all().chain(&self.superseded);
        sorted.chain(&self.fresh).chain(self.open.iter().flatten())
    }

    /// Calls `take` with every run that has pieces in `range` which reads may need, and their
    /// numbers.
    pub(crate) fn in_range(&self, range: Extent, take: &mut impl FnMut(&Run, Range<u64>)) {
        self.sorted.in_range(range, take);
        for run in self.fresh.iter().chain(self.open.iter().flatten()) {
            let pieces = run.pieces_in(range);
            if !pieces.is_empty() {
                take(run, pieces);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncation_makes_older_ones_behind_it_pointless() {
        let mut events = Events::default();
        events.add(Event::truncate(100, 1));
        events.add(Event::hole(Extent::new(120, 10), 2));
        events.add(Event::truncate(110, 3));
        assert_eq!(events.all().len(), 2, "{events:?}");
        events.add(Event::truncate(0, 9));
        assert_eq!(events.all(), [Event::truncate(0, 9)]);
        events.add(Event::truncate(50, 4));
        assert_eq!(events.all(), [Event::truncate(0, 9)], "it came later but is older");
        events.add(Event::hole(Extent::new(0, u64::MAX), 10));
        assert_eq!(events.last_truncate(), Some(Event::truncate(0, 9)), "holes set no size");
    }
}

//! How often each decision was taken, by its reason.

use super::{Note, Reason, Way};
use crate::log::Level;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const REASONS: usize = Reason::ALL.len();
const PAIRS: usize = Way::ALL.len() * REASONS;
/// Number of counts: one for each way and reason, one for each note.
pub(super) const SLOTS: usize = PAIRS + Note::ALL.len();

/// Counts of one open file; any thread may add.
#[derive(Debug)]
pub struct Decided([AtomicU64; SLOTS]);

/// The values of [`Decided`] at one moment, or their sum over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally(pub(super) [u64; SLOTS]);

impl Default for Decided {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self([0; SLOTS])
    }
}

impl Decided {
    /// Counts a call that is carried out in this way for this reason. Ranks that decide alike
    /// let one of them count.
    pub fn count(&self, way: Way, reason: Reason) {
        crate::log!(Level::Trace, "plan: {}: {}", way.words(), reason.words());
        self.0[way as usize * REASONS + reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts a note.
    pub fn note(&self, note: Note) {
        self.0[PAIRS + note as usize].fetch_add(1, Relaxed);
    }

    /// The values now.
    pub fn tally(&self) -> Tally {
        Tally(std::array::from_fn(|slot| self.0[slot].load(Relaxed)))
    }
}

impl Tally {
    /// How often calls were carried out in this way for this reason.
    pub fn of(&self, way: Way, reason: Reason) -> u64 {
        self.0[way as usize * REASONS + reason as usize]
    }

    /// How often something was noted.
    pub fn noted(&self, note: Note) -> u64 {
        self.0[PAIRS + note as usize]
    }

    /// The decisions that were taken at all, in words, and how often.
    pub fn decisions(&self) -> Vec<(String, u64)> {
        let pairs = Way::ALL.iter().flat_map(|way| Reason::ALL.iter().map(move |why| (*way, *why)));
        pairs
            .map(|(way, why)| (format!("{}: {}", way.words(), why.words()), self.of(way, why)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// The notes that were taken at all, in words, and how often.
    pub fn notes(&self) -> Vec<(&'static str, u64)> {
        let notes = Note::ALL.iter().map(|note| (note.words(), self.noted(*note)));
        notes.filter(|(_, count)| *count > 0).collect()
    }

    /// Adds another rank's values.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, value) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_and_every_note_has_a_count_of_its_own() {
        for way in Way::ALL {
            for reason in Reason::ALL {
                let decided = Decided::default();
                decided.count(*way, *reason);
                let tally = decided.tally();
                assert_eq!((tally.of(*way, *reason), tally.0.iter().sum::<u64>()), (1, 1));
                let words = format!("{}: {}", way.words(), reason.words());
                assert_eq!((tally.decisions(), tally.notes()), (vec![(words, 1)], vec![]));
            }
        }
        for note in Note::ALL {
            let decided = Decided::default();
            decided.note(*note);
            let tally = decided.tally();
            assert_eq!((tally.decisions(), tally.notes()), (vec![], vec![(note.words(), 1)]));
        }
    }

    #[test]
    fn words_are_unique_and_free_of_what_separates_them() {
        let mut words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.words()).collect();
        words.extend(Way::ALL.iter().map(|way| way.words()));
        words.extend(Note::ALL.iter().map(|note| note.words()));
        assert!(words.iter().all(|words| !words.contains([';', ',', '"', '{', '}'])), "{words:?}");
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
    }
}

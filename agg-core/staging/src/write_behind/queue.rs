//! The order of flushes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Flushes take place in the order in which the calls were made that they are for, which is that of
/// all ranks: two that ranks began in different orders would wait for each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    issued: u64,
    /// The first one that has not ended, and those behind it that have.
    first: u64,
    ended: BTreeSet<u64>,
}

impl Queue {
    /// The place of a flush that a call begins now.
    pub(super) fn ticket(&self) -> Ticket {
        let mut places = self.places();
        places.issued += 1;
        Ticket { queue: self.clone(), number: places.issued - 1 }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a flush among the others of its file, which it has until it is dropped.
#[derive(Debug)]
pub struct Ticket {
    queue: Queue,
    number: u64,
}

impl Ticket {
    /// Whether all earlier ones have ended.
    pub fn is_first(&self) -> bool {
        self.queue.places().first == self.number
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut places = self.queue.places();
        places.ended.insert(self.number);
        while let first = places.first
            && places.ended.remove(&first)
        {
            places.first += 1;
        }
    }
}

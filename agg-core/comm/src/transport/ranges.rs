//! Locks of ranks that are threads of one process.

use super::{LockGuard, SharedLocks};
use aggio_base::{Extent, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Range locks in this process' memory.
#[derive(Debug, Default)]
pub struct ThreadLocks {
    held: Arc<Mutex<Vec<Held>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    extent: Extent,
    exclusive: bool,
}

#[derive(Debug)]
struct Guard {
    held: Arc<Mutex<Vec<Held>>>,
    mine: Held,
}

impl SharedLocks for ThreadLocks {
    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        let mine = Held { extent, exclusive };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let conflict = |other: &Held| {
            (exclusive || other.exclusive) && !other.extent.intersect(extent).is_empty()
        };
        if held.iter().any(conflict) {
            return Ok(None);
        }
        held.push(mine);
        Ok(Some(Box::new(Guard { held: Arc::clone(&self.held), mine })))
    }
}

impl LockGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = held.iter().position(|other| *other == self.mine) {
            held.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_a_range_and_a_writer_waits_for_all_of_them() {
        let shared = ThreadLocks::default();
        let take = |offset, len, exclusive| {
            shared.try_lock(Extent::new(offset, len), exclusive).expect("memory locks do not fail")
        };
        let first = take(0, 10, false);
        let second = take(5, 10, false);
        assert!(first.is_some() && second.is_some());
        assert!(take(9, 1, true).is_none());
        assert!(take(15, 1, true).is_some());
        drop(first);
        assert!(take(9, 1, true).is_none());
        drop(second);
        assert!(take(9, 1, true).is_some());
    }
}

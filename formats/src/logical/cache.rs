//! Assembled parts of variables, those that were used last, bounded in bytes.

use super::Slab;
use crate::error::Result;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part of a slab: whose it is, and where it begins.
type Key = (u64, Slab, u64);
/// A part; empty until somebody has assembled it.
type Place = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

struct Entry {
    place: Place,
    used: u64,
    bytes: u64,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    clock: u64,
    bytes: u64,
}

/// The parts that are kept of one file, or of several.
pub struct Cache {
    most: u64,
    table: Mutex<Table>,
}

impl Table {
    /// The place of a part, which is now the one used last.
    fn touch(&mut self, key: Key) -> Place {
        self.clock += 1;
        let now = self.clock;
        let entry = self.entries.entry(key).or_insert_with(|| Entry {
            place: Place::default(),
            used: now,
            bytes: 0,
        });
        self.by_use.remove(&entry.used);
        entry.used = now;
        self.by_use.insert(now, key);
        Arc::clone(&entry.place)
    }

    fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    /// A part has so many bytes now: others go until there is room.
    fn count(&mut self, key: Key, bytes: u64, most: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        while self.bytes > most {
            let Some((_, oldest)) = self.by_use.first_key_value().map(|(use_, key)| (*use_, *key))
            else {
                return;
            };
            self.remove(oldest);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Cache({} of {} bytes)", self.bytes(), self.most)
    }
}

impl Cache {
    /// A cache of at most so many bytes.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Cache { most, table: Mutex::default() }
    }

    /// Bytes that are kept just now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        lock(&self.table).bytes
    }

    /// Nothing of this file is wanted any more.
    pub(super) fn forget(&self, file: u64) {
        let mut table = lock(&self.table);
        let keys: Vec<Key> = table.entries.keys().filter(|key| key.0 == file).copied().collect();
        keys.into_iter().for_each(|key| table.remove(key));
    }

    /// A part; whoever asks for it first assembles it, and others wait.
    pub(super) fn get(
        &self,
        key: Key,
        assemble: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Arc<Vec<u8>>> {
        let place = lock(&self.table).touch(key);
        let mut found = lock(&place);
        if let Some(found) = &*found {
            return Ok(Arc::clone(found));
        }
        match assemble() {
            Ok(bytes) => {
                let bytes = Arc::new(bytes);
                *found = Some(Arc::clone(&bytes));
                lock(&self.table).count(key, bytes.len() as u64, self.most);
                Ok(bytes)
            }
            Err(why) => {
                lock(&self.table).remove(key);
                Err(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(variable: usize) -> Key {
        (7, Slab { variable, record: 0 }, 0)
    }

    #[test]
    fn the_parts_used_last_are_kept_within_the_bound() {
        let cache = Cache::new(100);
        let get = |variable, made: &mut usize| {
            let bytes = cache.get(key(variable), || {
                *made += 1;
                Ok(vec![variable as u8; 40])
            });
            assert_eq!(*bytes.unwrap(), vec![variable as u8; 40]);
        };
        let mut made = 0;
        [1, 2, 1, 3, 1, 3].iter().for_each(|variable| get(*variable, &mut made));
        assert_eq!((made, cache.bytes()), (3, 80));
        get(2, &mut made);
        assert_eq!((made, cache.bytes()), (4, 80));
        cache.forget(6);
        assert_eq!(cache.bytes(), 80);
        cache.forget(7);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_part_larger_than_the_bound_is_given_but_not_kept() {
        let cache = Cache::new(10);
        assert_eq!(cache.get(key(0), || Ok(vec![0; 11])).unwrap().len(), 11);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let cache = Cache::new(100);
        let why = crate::error::Error::corrupt("a", "b");
        assert_eq!(cache.get(key(0), || Err(why.clone())), Err(why));
        assert_eq!(*cache.get(key(0), || Ok(vec![1])).unwrap(), [1]);
    }
}

//! Assembled parts of variables, those that were used last, bounded in bytes.
//!
//! Memory of parts that go is used again for others: fresh memory costs a fault for each of its
//! pages.

use super::Slab;
use crate::error::Result;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part of a slab: the number of its file, the slab, and where the part begins in it.
type Key = (u64, Slab, u64);
/// A part; empty until somebody has assembled it.
type Place = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

/// Shorter parts are not worth keeping their memory.
const LEAST_SPARE: usize = if cfg!(test) { 20 } else { 64 << 10 };
/// The most parts with memory that is kept, if it is less than a quarter of all.
const MOST_SPARE: usize = 4;

struct Entry {
    place: Place,
    used: u64,
    bytes: u64,
    /// Bytes of it that were asked for, all together.
    read: u64,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    clock: u64,
    bytes: u64,
    /// Memory of parts that are not kept any more.
    spare: Vec<Vec<u8>>,
    /// Bytes that it may have.
    most_spare: u64,
}

/// The parts that are kept of one file, or of several.
pub struct Cache {
    most: u64,
    /// Whether a part goes when all of it was read.
    once: bool,
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
            read: 0,
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
            self.keep_memory(entry.place);
        }
    }

    /// The memory of a part that nobody else has any more, for another one.
    fn keep_memory(&mut self, place: Place) {
        let found = Arc::into_inner(place).and_then(|place| place.into_inner().ok().flatten());
        let Some(memory) = found.and_then(Arc::into_inner) else { return };
        if memory.len() < LEAST_SPARE {
            return;
        }
        self.spare.push(memory);
        let all = |spare: &[Vec<u8>]| spare.iter().map(|one| one.capacity() as u64).sum::<u64>();
        while self.spare.len() > MOST_SPARE || all(&self.spare) > self.most_spare {
            self.spare.remove(0);
        }
    }

    /// Memory for a part of so many bytes, with anything in it. It takes at most twice the room.
    fn memory(&mut self, bytes: usize) -> Vec<u8> {
        let suits = |spare: &Vec<u8>| (spare.capacity() / 2..=spare.capacity()).contains(&bytes);
        match self.spare.iter().rposition(suits) {
            Some(found) => {
                let mut memory = self.spare.swap_remove(found);
                memory.resize(bytes, 0);
                memory
            }
            None => vec![0; bytes],
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
    // A panic under these locks leaves nothing half done.
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
        let table = Table { most_spare: most / 4, ..Table::default() };
        Cache { most, once: false, table: Mutex::new(table) }
    }

    /// The same, but a part goes when as many bytes of it were read as it has: for readers that
    /// have their bytes kept elsewhere, such as by the kernel.
    #[must_use]
    pub fn once(most: u64) -> Self {
        Cache { once: true, ..Self::new(most) }
    }

    /// Bytes that are kept just now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        lock(&self.table).bytes
    }

    /// Drops everything of this file.
    pub(super) fn forget(&self, file: u64) {
        let mut table = lock(&self.table);
        let keys: Vec<Key> = table.entries.keys().filter(|key| key.0 == file).copied().collect();
        keys.into_iter().for_each(|key| table.remove(key));
        table.spare.clear();
    }

    /// Records that so many bytes of a part were read, and that `part` is not needed any more.
    pub(super) fn was_read(&self, key: Key, part: Arc<Vec<u8>>, bytes: u64) {
        drop(part);
        if !self.once {
            return;
        }
        let mut table = lock(&self.table);
        let Some(entry) = table.entries.get_mut(&key) else { return };
        entry.read += bytes;
        if entry.bytes > 0 && entry.read >= entry.bytes {
            table.remove(key);
        }
    }

    /// A part of so many bytes. The first caller assembles it, and others wait. `assemble` writes
    /// all bytes.
    pub(super) fn get(
        &self,
        key: Key,
        bytes: usize,
        assemble: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Arc<Vec<u8>>> {
        let place = lock(&self.table).touch(key);
        let mut found = lock(&place);
        if let Some(found) = &*found {
            return Ok(Arc::clone(found));
        }
        let mut memory = lock(&self.table).memory(bytes);
        match assemble(&mut memory) {
            Ok(()) => {
                let bytes = Arc::new(memory);
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

    fn filled(with: u8) -> impl FnOnce(&mut [u8]) -> Result<()> {
        move |part| {
            part.fill(with);
            Ok(())
        }
    }

    fn key(variable: usize) -> Key {
        (7, Slab { variable, record: 0 }, 0)
    }

    #[test]
    fn the_parts_used_last_are_kept_within_the_bound() {
        let cache = Cache::new(100);
        let get = |variable, made: &mut usize| {
            let bytes = cache.get(key(variable), 40, |part| {
                *made += 1;
                part.fill(variable as u8);
                Ok(())
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
        assert_eq!(cache.get(key(0), 11, filled(0)).unwrap().len(), 11);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_part_of_which_all_was_read_goes_and_its_memory_is_used_again() {
        let cache = Cache::once(1000);
        let get = |variable, bytes| cache.get(key(variable), bytes, filled(7)).unwrap();
        let first = get(1, 40);
        let place = first.as_ptr();
        cache.was_read(key(1), first, 30);
        assert_eq!(cache.bytes(), 40);
        cache.was_read(key(1), get(1, 40), 10);
        assert_eq!(cache.bytes(), 0);
        let next = get(2, 30);
        assert_eq!((next.as_ptr(), next.as_slice()), (place, &[7; 30][..]));
        // Less than half of it would be used.
        cache.was_read(key(2), next, 30);
        assert_eq!(get(3, 19).capacity(), 19);
    }

    #[test]
    fn parts_stay_that_may_be_read_again() {
        let cache = Cache::new(1000);
        cache.was_read(key(1), cache.get(key(1), 40, filled(0)).unwrap(), 40);
        assert_eq!(cache.bytes(), 40);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let cache = Cache::new(100);
        let why = crate::error::Error::corrupt("a", "b");
        assert_eq!(cache.get(key(0), 1, |_| Err(why.clone())), Err(why));
        assert_eq!(*cache.get(key(0), 1, filled(1)).unwrap(), [1]);
    }
}

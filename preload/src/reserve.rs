//! The memory of this library when the system has none left.
//!
//! Large allocations (a window, a message, a buffer) are checked, and a failure becomes
//! `MPI_ERR_NO_MEM` on all ranks. Reporting it takes some little memory, which comes from a reserve
//! then: a failure to allocate a few bytes would end the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The system's memory, and the reserve for little things.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

static RESERVE: Reserve = Reserve::new();

/// Pieces of one size: how many bytes each has, and how many there are.
struct Class {
    size: usize,
    count: usize,
}

/// The sizes of pieces in the reserve, smaller ones first. They are multiples of [`ALIGN`].
const CLASSES: [Class; 6] = [
    Class { size: 64, count: 8192 },
    Class { size: 256, count: 4096 },
    Class { size: 1 << 10, count: 1024 },
    Class { size: 4 << 10, count: 256 },
    Class { size: 16 << 10, count: 64 },
    Class { size: 64 << 10, count: 16 },
];
/// Bytes of the reserve. The system gives storage for those that are used only.
const ROOM: usize = sum(CLASSES.len()).0;
/// Pieces of the reserve.
const PIECES: usize = sum(CLASSES.len()).1;
/// Alignment of every piece in bytes.
const ALIGN: usize = 64;

/// Bytes and pieces of the first classes.
const fn sum(classes: usize) -> (usize, usize) {
    let (mut bytes, mut pieces, mut at) = (0, 0, 0);
    while at < classes {
        bytes += CLASSES[at].size * CLASSES[at].count;
        pieces += CLASSES[at].count;
        at += 1;
    }
    (bytes, pieces)
}

#[repr(C, align(64))]
struct Reserve {
    bytes: UnsafeCell<[u8; ROOM]>,
    /// Of each class the piece that was given back last, by its number plus one, 0 for none; above
    /// it a count of changes, so that a slow thread does not take a changed list for the same one.
    free: [AtomicU64; CLASSES.len()],
    /// Of each piece that was given back the one before, as in `free`.
    next: [AtomicU32; PIECES],
    /// Of each class how many pieces have been taken that were never given back before.
    fresh: [AtomicU32; CLASSES.len()],
}

// SAFETY: every piece is given to one owner, by an atomic operation.
unsafe impl Sync for Reserve {}

/// One change of a list of free pieces.
const CHANGE: u64 = 1 << 32;

impl Reserve {
    const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; ROOM]),
            free: [const { AtomicU64::new(0) }; CLASSES.len()],
            next: [const { AtomicU32::new(0) }; PIECES],
            fresh: [const { AtomicU32::new(0) }; CLASSES.len()],
        }
    }

    fn base(&self) -> *mut u8 {
        self.bytes.get().cast()
    }

    /// A piece that is large enough; null for large requests, and if all pieces are in use.
    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.align() > ALIGN {
            return std::ptr::null_mut();
        }
        let fitting = (0..CLASSES.len()).filter(|class| CLASSES[*class].size >= layout.size());
        for class in fitting {
            if let Some(number) = self.freed(class).or_else(|| self.unused(class)) {
                return self.base().wrapping_add(sum(class).0 + number * CLASSES[class].size);
            }
        }
        std::ptr::null_mut()
    }

    /// The number of a piece of the class that was given back.
    fn freed(&self, class: usize) -> Option<usize> {
        let first = |list: u64| (list as u32).checked_sub(1).map(|number| number as usize);
        let without = |list: u64| {
            let next = self.next[sum(class).1 + first(list)?].load(Ordering::Relaxed);
            Some((list / CHANGE + 1) * CHANGE + u64::from(next))
        };
        let taken = self.free[class].fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
        taken.ok().and_then(first)
    }

    /// The number of a piece of the class that nobody has had yet.
    fn unused(&self, class: usize) -> Option<usize> {
        let more = |taken: u32| ((taken as usize) < CLASSES[class].count).then_some(taken + 1);
        let taken = self.fresh[class].fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|number| number as usize)
    }

    #[inline]
    fn has(&self, piece: *mut u8) -> bool {
        (piece as usize).wrapping_sub(self.base() as usize) < ROOM
    }

    /// Takes back a piece that it [has](Reserve::has).
    #[cold]
    fn give_back(&self, piece: *mut u8) {
        let offset = piece as usize - self.base() as usize;
        let class = (0..CLASSES.len()).rfind(|class| sum(*class).0 <= offset).unwrap_or(0);
        let number = (offset - sum(class).0) / CLASSES[class].size;
        let next = &self.next[sum(class).1 + number];
        let with = |list: u64| {
            next.store(list as u32, Ordering::Relaxed);
            Some((list / CHANGE + 1) * CHANGE + number as u64 + 1)
        };
        let _ = self.free[class].fetch_update(Ordering::AcqRel, Ordering::Acquire, with);
    }
}

// SAFETY: the system's allocator, and pieces that nobody else has.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { RESERVE.take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let piece = RESERVE.take(layout);
        if !piece.is_null() {
            // SAFETY: the piece has that many bytes; it may have been used before.
            unsafe { piece.write_bytes(0, layout.size()) };
        }
        piece
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if RESERVE.has(memory) {
            RESERVE.give_back(memory);
        } else {
            // SAFETY: the caller's promise, passed on: this came from the system.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !RESERVE.has(memory) {
            // SAFETY: the caller's promise, passed on: this came from the system.
            let grown = unsafe { System.realloc(memory, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: the caller promises that this is a layout; the copied range is inside both
        // blocks.
        unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            let new = self.alloc(wanted);
            if !new.is_null() {
                new.copy_from_nonoverlapping(memory, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    #[test]
    fn every_piece_lies_apart_and_comes_again_when_it_was_given_back() {
        static OWN: Reserve = Reserve::new();
        let reserve = &OWN;
        for round in 0..2 {
            let mut all = BTreeSet::new();
            for _ in 0..PIECES {
                let piece = reserve.take(layout(1, ALIGN));
                assert!(reserve.has(piece) && (piece as usize).is_multiple_of(ALIGN), "{round}");
                assert!(all.insert(piece as usize), "{round}: one piece for two");
            }
            assert!(reserve.take(layout(1, 1)).is_null());
            for piece in all {
                reserve.give_back(piece as *mut u8);
            }
        }
    }

    #[test]
    fn a_piece_has_the_bytes_that_were_asked_for() {
        static OWN: Reserve = Reserve::new();
        let reserve = &OWN;
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for size in [1, 64, 65, 256, 4000, 4097, 65536, 65536, 3] {
            let start = reserve.take(layout(size, 8)) as usize - reserve.base() as usize;
            assert!(taken.iter().all(|(from, to)| start + size <= *from || *to <= start));
            assert!(start + size <= ROOM);
            taken.push((start, start + size));
        }
        assert!(reserve.take(layout(65537, 1)).is_null());
        assert!(reserve.take(layout(1, 128)).is_null());
    }

    #[test]
    fn threads_never_share_a_piece() {
        static OWN: Reserve = Reserve::new();
        let reserve = &OWN;
        let work = |mark: u8| {
            for round in 0..2000_usize {
                let pieces: Vec<_> = (0..4).map(|n| reserve.take(layout(n * 90 + 1, 8))).collect();
                for piece in &pieces {
                    // SAFETY: the piece is this thread's, and has at least one byte.
                    unsafe { piece.write(mark) };
                }
                for piece in pieces {
                    // SAFETY: the same.
                    assert_eq!(unsafe { piece.read() }, mark, "{round}");
                    reserve.give_back(piece);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|mark| drop(scope.spawn(move || work(mark))));
        });
    }
}

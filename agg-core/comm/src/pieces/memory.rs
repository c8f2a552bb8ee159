//! The memory with the pieces: sets of control words, and room for the pieces of each.

use super::PIECE;
use super::set::{Control, Set, WAYS};
use crate::node::{Memory, NodeAddress};

/// Sets at most; each has room for as many pieces as a rank alone keeps.
const SETS: usize = 16;

/// Bytes of the control words of a set, whole pages.
const CONTROL: usize = size_of::<Control>().next_multiple_of(4096);

/// Memory that ranks of a node share; storage is taken as it is used.
#[derive(Debug)]
pub(super) struct Pieces {
    memory: Memory,
    sets: usize,
}

fn len(sets: usize) -> usize {
    sets * (CONTROL + WAYS * PIECE)
}

impl Pieces {
    /// New memory for this number of `ranks`.
    pub(super) fn create(ranks: usize) -> Option<Self> {
        let sets = ranks.clamp(1, SETS);
        Some(Self { memory: Memory::create(len(sets)).ok()?, sets })
    }

    /// The memory that another rank has made.
    pub(super) fn open(address: NodeAddress, ranks: usize) -> Option<Self> {
        let sets = ranks.clamp(1, SETS);
        Some(Self { memory: Memory::open(address, len(sets)).ok()?, sets })
    }

    pub(super) fn address(&self) -> NodeAddress {
        self.memory.address()
    }

    /// The set that piece `number` belongs to. Numbers are mixed: those in use may have a stride.
    pub(super) fn set(&self, number: u64) -> Set<'_> {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let index = mixed as usize % self.sets;
        let place = self.memory.place(index * CONTROL, size_of::<Control>());
        // SAFETY: inside the mapping, which is page aligned and lives as long as `self`; control
        // words are atomic integers.
        let control = unsafe { &*place.cast::<Control>() };
        Set { control, pieces: self, first: self.sets * CONTROL + index * WAYS * PIECE }
    }

    /// Copies bytes of a piece that begins at byte `at`; other processes may change them meanwhile.
    pub(super) fn copy(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let from = self.memory.place(at, len);
        // SAFETY: both have `len` bytes. Bytes that others store meanwhile are not used: the caller
        // compares the number of changes.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Stores `bytes` from byte `at` on, if there is memory for them.
    pub(super) fn store(&self, at: usize, bytes: &[u8]) -> bool {
        if !self.memory.reserve(at, bytes.len()) {
            return false;
        }
        let to = self.memory.place(at, bytes.len());
        // SAFETY: the place has `bytes.len()` bytes, and only the fetching rank stores there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }
}

//! The blocks of single pieces of an index: read from the file when they are needed, and kept as
//! long as no other one takes their place in memory.

use crate::errors::{damaged_at, failed};
use crate::format::{Run, fits, single, u32_at, u64_at};
use crate::index::header::{BLOCK, SINGLE, SINGLES};
use aggio_base::{Error, Extent, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Blocks that are kept at most: 4 MiB of memory.
const KEPT: u64 = if cfg!(test) { 3 } else { 1024 };

/// The blocks of an index.
#[derive(Debug)]
pub(crate) struct Blocks {
    file: File,
    path: PathBuf,
    /// Where in the file they begin.
    place: u64,
    /// Pieces in all of them.
    singles: u64,
    /// Each block has one place, which others share with it.
    kept: Box<[Mutex<Option<Box<Block>>>]>,
}

/// A block as it is stored: its pieces ascend.
#[derive(Debug)]
pub(crate) struct Block {
    number: u64,
    bytes: [u8; BLOCK],
    count: usize,
    /// Bytes of the longest piece.
    longest: u64,
}

impl Blocks {
    /// The blocks of an index that begin at `place` in the file and hold `singles` pieces in all.
    pub(crate) fn new(file: File, path: PathBuf, place: u64, singles: u64) -> Self {
        let blocks = singles.div_ceil(SINGLES as u64);
        let kept = (0..blocks.min(KEPT)).map(|_| Mutex::new(None)).collect();
        Self { file, path, place, singles, kept }
    }

    /// The number of blocks.
    pub(crate) fn len(&self) -> u64 {
        self.singles.div_ceil(SINGLES as u64)
    }

    /// Calls `look` on a block, which is read from the file unless it is in memory.
    pub(crate) fn with<T>(&self, number: u64, look: impl FnOnce(&Block) -> T) -> Result<T> {
        let slot = &self.kept[(number % self.kept.len() as u64) as usize];
        let mut kept = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = kept.as_deref().filter(|block| block.number == number) {
            return Ok(look(block));
        }
        let block = self.read(number)?;
        Ok(look(kept.insert(block)))
    }

    /// Reads a block from the file.
    pub(crate) fn read(&self, number: u64) -> Result<Box<Block>> {
        let count = (self.singles - number * SINGLES as u64).min(SINGLES as u64) as usize;
        let mut block = Box::new(Block { number, bytes: [0; BLOCK], count, longest: 0 });
        self.file
            .read_exact_at(&mut block.bytes, self.place_of(number))
            .map_err(|error| failed("pread", &error, &self.path))?;
        let sum = aggio_base::checksum::crc32c(&block.bytes[..BLOCK - 4]);
        if sum != u32_at(&block.bytes, BLOCK - 4) {
            return Err(self.wrong(number, "has a wrong checksum"));
        }
        if !(1..count).all(|at| block.start(at - 1) <= block.start(at)) {
            return Err(self.wrong(number, "is not sorted"));
        }
        block.longest = (0..count).map(|at| block.length(at)).max().unwrap_or(0);
        Ok(block)
    }

    fn place_of(&self, number: u64) -> u64 {
        self.place + number * BLOCK as u64
    }

    /// The error for a block that is not as it should be.
    pub(crate) fn wrong(&self, number: u64, words: &str) -> Error {
        let place = self.place_of(number);
        damaged_at(&self.path, format!("the block at byte {place} of the index {words}"))
    }
}

impl Block {
    fn piece(&self, at: usize) -> &[u8] {
        &self.bytes[at * SINGLE..(at + 1) * SINGLE]
    }

    fn start(&self, at: usize) -> u64 {
        u64_at(self.piece(at), 0)
    }

    fn length(&self, at: usize) -> u64 {
        u64_at(self.piece(at), 8)
    }

    /// How many pieces begin before `byte`.
    fn before(&self, byte: u64) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.start(middle) < byte { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// All pieces, of logs of these `lengths`; `None` for one that cannot be.
    pub(crate) fn all(&self, lengths: &[u64]) -> impl Iterator<Item = Option<Run>> {
        (0..self.count).map(|at| decode(self.piece(at), lengths))
    }

    /// The pieces that have bytes in `range`, as [`all`](Block::all) gives them.
    pub(crate) fn in_range(
        &self,
        range: Extent,
        lengths: &[u64],
    ) -> impl Iterator<Item = Option<Run>> {
        // A piece with bytes in the range begins less than `longest` before it.
        let first = range.offset.saturating_sub(self.longest.saturating_sub(1));
        let near = self.before(first)..self.before(range.end());
        let reaches =
            move |at: &usize| self.start(*at).saturating_add(self.length(*at)) > range.offset;
        near.filter(reaches).map(|at| decode(self.piece(at), lengths))
    }
}

fn decode(bytes: &[u8], lengths: &[u64]) -> Option<Run> {
    let [start, length, place, seq] = [0, 8, 16, 24].map(|at| u64_at(bytes, at));
    let head = u64::from(u32_at(bytes, 36));
    let run = Run { head, ..single(start, length, u32_at(bytes, 32), place, seq) };
    let log = lengths.get(run.log as usize)?;
    (fits(&run, *log) && head <= place).then_some(run)
}

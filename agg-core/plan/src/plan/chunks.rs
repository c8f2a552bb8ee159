//! Chunks: parts of the file that ranks touch as a whole, and which of them go through aggregators.
//!
//! Programs that store arrays in chunks, as HDF5 does, set with each view the starts of the chunks
//! in which a rank has data. The starts of all ranks together define the chunks of a call: each
//! reaches from its first byte to that of the next one. Chunks never affect correctness: a rank
//! moves its data in some chunks itself and that in the others through aggregators.

mod exchanged;
#[cfg(test)]
mod tests;

pub use exchanged::Exchanged;

use crate::format::{Data, Map, Piece, Thing};
use aggio_base::Extent;
use std::ops::Range;

/// More chunks are not looked at.
const MOST: usize = 1 << 16;

/// Bytes of a chunk's wire form.
const WIRE_BYTES: usize = 16;

/// The wire form of unknown chunks.
const UNKNOWN: [u8; 1] = [0];

/// A chunk that ranks touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    start: u64,
    /// How many ranks touch it, and one of them.
    ranks: u32,
    rank: u32,
}

/// The chunks of a call, in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks(Vec<Chunk>);

/// Which chunks go through aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All.
    All,
    /// Those that several ranks touch, and those of one rank that are together shorter than this
    /// number of bytes.
    Shared(u64),
    /// Those that more than this percentage of the ranks touch, and more than one; with 0, all.
    Percent(u32),
}

impl Chunks {
    /// The message of rank `rank`: it touches chunks that start at these bytes, ascending; `None`
    /// if its chunks are unknown.
    pub fn of_rank(rank: usize, starts: Option<&[u64]>) -> Vec<u8> {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        let one = |start: &u64| Chunk { start: *start, ranks: 1, rank };
        match starts {
            Some(starts) if starts.len() <= MOST => Self(starts.iter().map(one).collect()).bytes(),
            _ => UNKNOWN.to_vec(),
        }
    }

    /// Combines the messages of several ranks.
    pub fn combine(left: &[u8], right: &[u8]) -> Vec<u8> {
        match (Self::from_bytes(left), Self::from_bytes(right)) {
            (Some(left), Some(right)) => left.and(&right).bytes(),
            _ => UNKNOWN.to_vec(),
        }
    }

    /// The chunks of a combined message; `None` if a rank's chunks are unknown.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if !bytes.len().is_multiple_of(WIRE_BYTES) {
            return None;
        }
        let half =
            |chunk: &[u8], at: usize| chunk[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let one = |chunk: &[u8]| Chunk {
            start: chunk[..8].try_into().map_or(0, u64::from_le_bytes),
            ranks: half(chunk, 8),
            rank: half(chunk, 12),
        };
        let all = Self(bytes.chunks_exact(WIRE_BYTES).map(one).collect());
        let ascends = all.0.windows(2).all(|pair| pair[0].start < pair[1].start);
        (ascends && all.0.len() <= MOST).then_some(all)
    }

    fn bytes(&self) -> Vec<u8> {
        if self.0.len() > MOST {
            return UNKNOWN.to_vec();
        }
        let mut bytes = Vec::with_capacity(WIRE_BYTES * self.0.len());
        for chunk in &self.0 {
            bytes.extend_from_slice(&chunk.start.to_le_bytes());
            bytes.extend_from_slice(&chunk.ranks.to_le_bytes());
            bytes.extend_from_slice(&chunk.rank.to_le_bytes());
        }
        bytes
    }

    fn and(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut all = Vec::with_capacity(self.0.len() + other.0.len());
        loop {
            let start = |chunk: Option<&&Chunk>| chunk.map(|chunk| chunk.start);
            match (start(left.peek()), start(right.peek())) {
                (None, None) => return Self(all),
                (Some(a), Some(b)) if a == b => {
                    let pair = left.next().zip(right.next());
                    all.extend(pair.map(|(one, other)| Chunk {
                        ranks: one.ranks.saturating_add(other.ranks),
                        ..*one
                    }));
                }
                (Some(a), b) if b.is_none_or(|b| a < b) => all.extend(left.next()),
                _ => all.extend(right.next()),
            }
        }
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of chunks that each of `ranks` ranks touches on average, rounded down.
    pub fn mean(&self, ranks: usize) -> u64 {
        let touched = self.0.iter().fold(0u64, |sum, chunk| sum + u64::from(chunk.ranks));
        touched / ranks.max(1) as u64
    }

    /// The bytes of these chunks, to the next one: of the last one to the end of the file, of the
    /// first one from its beginning.
    fn span(&self, chunks: Range<usize>) -> Extent {
        let start = if chunks.start == 0 { 0 } else { self.0[chunks.start].start };
        Extent::between(start, self.0.get(chunks.end).map_or(u64::MAX, |next| next.start))
    }

    /// The parts of `hull`, which has the bytes of `ranks` ranks, that go through aggregators; all
    /// ranks find the same.
    pub fn exchanged(&self, hull: Extent, ranks: usize, rule: Rule) -> Exchanged {
        let limit = |percent: u32| (ranks as u64 * u64::from(percent) / 100).max(1);
        let mut parts = Vec::new();
        let mut at = 0;
        while at < self.0.len() {
            // Chunks of one rank in a row are one.
            let chunk = self.0[at];
            let same = |next: &Chunk| next.ranks == 1 && next.rank == chunk.rank;
            let more = self.0[at + 1..].iter().take_while(|next| chunk.ranks == 1 && same(next));
            let end = at + 1 + more.count();
            let run = self.span(at..end).intersect(hull);
            let passes = match rule {
                Rule::All | Rule::Percent(0) => true,
                Rule::Shared(least) => chunk.ranks > 1 || run.len < least,
                Rule::Percent(percent) => u64::from(chunk.ranks) > limit(percent),
            };
            if passes {
                parts.push(run);
            }
            at = end;
        }
        Exchanged::new(if self.is_empty() { vec![hull] } else { parts })
    }

    /// The number of chunks of a rank, given by their `starts`, that are outside `exchanged`.
    pub fn outside(starts: &[u64], exchanged: &Exchanged) -> u64 {
        starts.iter().filter(|start| !exchanged.has(**start)).count() as u64
    }

    fn index(&self, offset: u64) -> Option<usize> {
        self.0.partition_point(|chunk| chunk.start <= offset).checked_sub(1)
    }
}

/// Each chunk is a slab of bytes: a record of one variable.
impl Map for Chunks {
    fn header(&self) -> u64 {
        0
    }

    fn piece(&self, offset: u64) -> Piece {
        let Some(index) = self.index(offset) else {
            let end = self.0.first().map_or(u64::MAX, |first| first.start);
            return Piece { extent: Extent::between(offset, end), thing: Thing::Gap };
        };
        let chunk = self.span(index..index + 1);
        let extent = Extent::between(offset, chunk.end());
        let byte = |offset: u64| offset - self.0[index].start;
        let elements = byte(offset)..byte(chunk.end());
        let record = index as u64;
        Piece { extent, thing: Thing::Data(Data { variable: 0, record, elements }) }
    }

    fn extent_of(&self, data: &Data) -> Option<Extent> {
        let Data { variable: 0, record, elements } = data else { return None };
        let index = usize::try_from(*record).ok()?;
        let start = self.0.get(index)?.start;
        let end = self.0.get(index + 1).map_or(u64::MAX, |next| next.start);
        let part = Extent::between(
            start.checked_add(elements.start)?,
            start.checked_add(elements.end.max(elements.start))?,
        );
        (part.end() <= end).then_some(part)
    }

    fn border_before(&self, offset: u64) -> Option<u64> {
        self.index(offset).map(|index| self.0[index].start)
    }

    fn border_behind(&self, offset: u64) -> Option<u64> {
        self.0.get(self.0.partition_point(|chunk| chunk.start < offset)).map(|chunk| chunk.start)
    }

    /// Chunks are cut at multiples of the file system's unit only.
    fn rows(&self, _: u64) -> Option<(u64, u64)> {
        None
    }

    fn last(&self) -> Extent {
        Extent::default()
    }

    fn depends_on(&self, _: Extent) -> bool {
        false
    }
}

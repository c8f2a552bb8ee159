//! Plans of collective calls: pure functions of numbers that are equal on every rank.
//!
//! Each rank describes its part of a call in a [`Summary`]. All ranks have the [`Total`] of all
//! summaries and [`decide()`] alike, so no rank needs to send its decision to another.

pub mod aggregators;
mod borders;
pub mod chunks;
pub mod cost;
mod decide;
mod domains;
pub mod node_aggregation;
mod participants;
mod sequence;
mod total;
mod window;

pub use aggio_base::report::{Note, Reason, Way};
pub use borders::Guide;
pub use decide::{Decision, Method, Wishes, alone_from, decide};
pub use domains::Domains;
pub use participants::Participants;
pub use sequence::Sequence;
pub use total::{Total, is_dense};
pub use window::window_size;

use aggio_base::Extent;
use aggio_types::view::View;
use cost::Costs;

/// A coarser grain than that of pages saves nothing.
const MOST_GRAIN: u32 = 12;

/// One rank's part of a collective call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The file bytes from the first to the last of the request; empty without data.
    pub span: Extent,
    /// Data bytes.
    pub bytes: u64,
    /// Contiguous pieces in the file, about.
    pub pieces: u64,
    /// The arguments were wrong; this rank moves nothing.
    pub failed: bool,
    /// The collective operation that the rank is in, below 64; 0 is none with a number on all
    /// ranks. Ranks in different operations must not go on.
    pub kind: u8,
    /// The view's data may go back in the file or overlap itself: no aggregator can serve it.
    pub unordered: bool,
    /// All pieces start and end at multiples of 2 to this power.
    pub grain: u8,
    /// The cost of requests in the call's direction on this rank.
    pub figures: Costs,
    /// Whether the rank has already moved its bytes.
    pub ahead: Ahead,
    /// The rank has more bytes, which are to be in the file after those of all ranks.
    pub more: bool,
    /// All its data bytes are zeros, which need not be stored where a file shows zeros anyway.
    pub zeros: bool,
    /// The number of a past call that this rank's part repeats and that it still has in its plan
    /// cache, below 2^48; 0 is none.
    pub past: u64,
}

/// The speculative part of a call, done before the ranks meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing.
    #[default]
    No,
    /// All of its part.
    Done,
    /// It tried and failed; the ranks receive the error when they agree.
    Failed,
}

impl Ahead {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Done,
            2 => Self::Failed,
            _ => Self::No,
        }
    }
}

impl Summary {
    /// Number of bytes of the wire form.
    pub const WIRE_BYTES: usize = 43;

    /// The summary of a rank without measurements that moves `bytes` data bytes, not 0, from
    /// `position` of `view` on.
    pub fn of(view: &View, position: u64, bytes: u64, kind: u8) -> Self {
        Self {
            span: view.span(position, bytes),
            bytes,
            pieces: view.pieces(position, bytes),
            failed: false,
            kind,
            unordered: !view.is_aggregatable(),
            grain: view.grain(position, bytes).min(MOST_GRAIN) as u8,
            figures: Costs::default(),
            ahead: Ahead::No,
            more: false,
            zeros: false,
            past: 0,
        }
    }

    /// The bytes that carry the summary to the other ranks.
    pub fn to_bytes(self) -> [u8; Self::WIRE_BYTES] {
        let mut bytes = [0; Self::WIRE_BYTES];
        let words = [self.span.offset, self.span.len, self.bytes, self.pieces];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[33..35].copy_from_slice(&self.figures.to_bytes());
        bytes[32] = self.grain;
        bytes[35..41].copy_from_slice(&self.past.to_le_bytes()[..6]);
        bytes[41] = self.ahead as u8 | u8::from(self.zeros) << 6 | u8::from(self.more) << 7;
        bytes[42] = u8::from(self.failed) | u8::from(self.unordered) << 1 | self.kind << 2;
        bytes
    }

    /// The summaries of all ranks, end to end in `bytes`; a rest that is no summary is ignored.
    pub fn all_from_bytes(bytes: &[u8]) -> Vec<Self> {
        let word = |chunk: &[u8], i: usize| {
            chunk[8 * i..8 * i + 8].try_into().map_or(0, u64::from_le_bytes)
        };
        let past = |chunk: &[u8]| {
            let bytes = [chunk[35], chunk[36], chunk[37], chunk[38], chunk[39], chunk[40], 0, 0];
            u64::from_le_bytes(bytes)
        };
        bytes
            .chunks_exact(Self::WIRE_BYTES)
            .map(|chunk| Self {
                span: Extent::new(word(chunk, 0), word(chunk, 1)),
                bytes: word(chunk, 2),
                pieces: word(chunk, 3),
                failed: chunk[42] & 1 != 0,
                unordered: chunk[42] & 2 != 0,
                kind: chunk[42] >> 2,
                grain: chunk[32],
                figures: Costs::from_bytes([chunk[33], chunk[34]]),
                ahead: Ahead::from_byte(chunk[41] & 0x3F),
                more: chunk[41] & 0x80 != 0,
                zeros: chunk[41] & 0x40 != 0,
                past: past(chunk),
            })
            .collect()
    }

    /// The file bytes from the first to the last that any rank asks for; empty without data.
    pub fn hull(all: &[Summary]) -> Extent {
        let with_data = || all.iter().filter(|summary| summary.bytes > 0);
        let start = with_data().map(|summary| summary.span.offset).min().unwrap_or(0);
        let end = with_data().map(|summary| summary.span.end()).max().unwrap_or(0);
        Extent::between(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_survive_the_way_to_another_rank() {
        let all = [
            Summary {
                span: Extent::new(7, 90),
                bytes: 50,
                pieces: 3,
                failed: false,
                kind: 63,
                unordered: true,
                grain: 12,
                figures: Costs::new(1 << 20, 1 << 30),
                ahead: Ahead::Done,
                more: true,
                zeros: true,
                past: (1 << 48) - 2,
            },
            Summary { failed: true, ..Summary::default() },
            Summary { ahead: Ahead::Failed, ..Summary::default() },
        ];
        let bytes: Vec<u8> = all.iter().flat_map(|summary| summary.to_bytes()).collect();
        assert_eq!(Summary::all_from_bytes(&bytes), all);
    }

    #[test]
    fn ranks_without_data_do_not_stretch_the_hull() {
        let data =
            Summary { span: Extent::new(100, 50), bytes: 10, pieces: 1, ..Summary::default() };
        assert_eq!(Summary::hull(&[Summary::default(), data]), Extent::new(100, 50));
        assert!(Summary::hull(&[Summary::default()]).is_empty());
    }
}

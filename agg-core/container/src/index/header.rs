//! The header of an index, and sizes of its parts.

use crate::errors::damaged;
use crate::format::{u32_at, u64_at};
use aggio_base::Result;

/// The first bytes.
pub(crate) const MAGIC: [u8; 8] = *b"aggioix1";
/// Bytes of the header.
pub(crate) const HEADER: usize = 128;
/// Bytes of a block of singles.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of a single piece.
pub(crate) const SINGLE: usize = 40;
/// Singles of a block; its last four bytes are a checksum.
pub(crate) const SINGLES: usize = (BLOCK - 4) / SINGLE;
/// Bytes of an event.
pub(crate) const EVENT: usize = 32;
/// Bytes of a fence: first start and highest end of a block.
pub(crate) const FENCE: usize = 16;

/// The numbers of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) uuid: u128,
    pub(crate) generation: u64,
    pub(crate) logs: u64,
    pub(crate) events: u64,
    pub(crate) runs: u64,
    /// Bytes of the coded runs.
    pub(crate) run_bytes: u64,
    pub(crate) singles: u64,
    /// Checksums of logs, events, runs and fences.
    pub(crate) sums: [u32; 4],
    /// Whether runs and singles tell where their frames begin.
    pub(crate) frames: bool,
}

impl Header {
    /// The header as bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &self.uuid.to_le_bytes());
        let numbers =
            [self.generation, self.logs, self.events, self.runs, self.run_bytes, self.singles];
        numbers.iter().enumerate().for_each(|(i, n)| put(24 + 8 * i, &n.to_le_bytes()));
        self.sums.iter().enumerate().for_each(|(i, sum)| put(72 + 4 * i, &sum.to_le_bytes()));
        put(88, &[u8::from(self.frames)]);
        let crc = aggio_base::checksum::crc32c(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self> {
        if bytes[..8] != MAGIC {
            return Err(damaged("it does not begin as an index"));
        }
        if aggio_base::checksum::crc32c(&bytes[..HEADER - 4]) != u32_at(bytes, HEADER - 4) {
            return Err(damaged("the checksum of the index's header is wrong"));
        }
        let n = |i: usize| u64_at(bytes, 24 + 8 * i);
        Ok(Self {
            uuid: u128::from(u64_at(bytes, 16)) << 64 | u128::from(u64_at(bytes, 8)),
            generation: n(0),
            logs: n(1),
            events: n(2),
            runs: n(3),
            run_bytes: n(4),
            singles: n(5),
            sums: [72, 76, 80, 84].map(|at| u32_at(bytes, at)),
            frames: bytes[88] == 1,
        })
    }

    /// Blocks of singles.
    fn blocks(&self) -> u64 {
        self.singles.div_ceil(SINGLES as u64)
    }

    /// Where logs, events, runs, fences and singles begin, and where the file ends.
    pub(crate) fn places(&self) -> Option<[u64; 6]> {
        let logs = HEADER as u64;
        let events = logs.checked_add(self.logs.checked_mul(8)?)?;
        let runs = events.checked_add(self.events.checked_mul(EVENT as u64)?)?;
        let fences = runs.checked_add(self.run_bytes)?;
        let singles = fences.checked_add(self.blocks().checked_mul(FENCE as u64)?)?;
        let end = singles.checked_add(self.blocks().checked_mul(BLOCK as u64)?)?;
        Some([logs, events, runs, fences, singles, end])
    }
}

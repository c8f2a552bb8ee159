//! The output to a subfile: pieces in any order, joined to large ones.

use super::content::Sink;
use crate::cdf::swap;
use crate::error::Result;
use std::ops::Range;

/// Bytes that are kept until they are written.
const MOST: usize = if cfg!(test) { 60 } else { 8 << 20 };

/// Pieces that are kept until they are written.
const MOST_PIECES: usize = 128 << 10;

/// Bytes that belong together at an offset.
struct Piece {
    offset: u64,
    bytes: Range<usize>,
}

/// The output to a subfile. No byte may be written twice.
pub(super) struct Out<'a> {
    sink: &'a dyn Sink,
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
    joined: Vec<u8>,
}

impl<'a> Out<'a> {
    pub(super) fn new(sink: &'a dyn Sink) -> Self {
        Out { sink, bytes: Vec::new(), pieces: Vec::new(), joined: Vec::new() }
    }

    /// Bytes that are put from now on lie at `offset`, one behind the other.
    pub(super) fn at(&mut self, offset: u64) -> Result<()> {
        if self.bytes.len() >= MOST || self.pieces.len() >= MOST_PIECES {
            self.flush()?;
        }
        let end = self.bytes.len();
        let goes_on = |last: &Piece| last.offset + last.bytes.len() as u64 == offset;
        if !self.pieces.last().is_some_and(goes_on) {
            self.pieces.push(Piece { offset, bytes: end..end });
        }
        Ok(())
    }

    /// Puts bytes; those of each element, if it has `turned` bytes, in the other order. Not more
    /// than a few MiB in all without another [`Out::at`].
    pub(super) fn put(&mut self, bytes: &[u8], turned: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        swap(&mut self.bytes[start..], turned);
        if let Some(last) = self.pieces.last_mut() {
            last.bytes.end = self.bytes.len();
        }
    }

    /// Writes everything.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.pieces.sort_by_key(|piece| piece.offset);
        let mut rest = self.pieces.as_slice();
        while let Some(first) = rest.first() {
            let mut end = first.offset;
            let joins = |piece: &&Piece| {
                let goes_on = piece.offset == end;
                end = piece.offset + piece.bytes.len() as u64;
                goes_on
            };
            let count = rest.iter().take_while(joins).count();
            let (together, others) = rest.split_at(count.max(1));
            if let [one] = together {
                self.sink.write_at(&self.bytes[one.bytes.clone()], one.offset)?;
            } else {
                self.joined.clear();
                for piece in together {
                    self.joined.extend_from_slice(&self.bytes[piece.bytes.clone()]);
                }
                self.sink.write_at(&self.joined, first.offset)?;
            }
            rest = others;
        }
        self.pieces.clear();
        self.bytes.clear();
        Ok(())
    }
}

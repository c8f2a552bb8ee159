//! Reading any bytes of a logical file.

use super::windows::LEAST;
use super::{Logical, Slab};
use crate::cdf::Place;
use crate::error::Result;
use std::ops::Range;

/// How data are had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From parts that are kept.
    Kept,
    /// Straight to the buffer, whole elements.
    Straight,
}

impl Logical {
    /// Fills a buffer from `offset` on: how many bytes, less than asked for only at the end of the
    /// file.
    ///
    /// # Errors
    ///
    /// If a file of the set cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read(buffer, offset, Way::Kept)
    }

    /// Fills a buffer with one of [`Logical::windows`]; nothing of it is kept.
    ///
    /// # Errors
    ///
    /// If a file of the set cannot be read.
    pub fn read_window(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read(buffer, offset, Way::Straight)
    }

    fn read(&self, buffer: &mut [u8], offset: u64, way: Way) -> Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.size);
        for piece in self.layout.pieces(offset..end.max(offset)) {
            // Both borders lie in the buffer.
            let (from, to) = (piece.range.start - offset, piece.range.end - offset);
            let part = &mut buffer[from as usize..to as usize];
            match piece.place {
                Place::Header => {
                    let start = piece.range.start as usize;
                    part.copy_from_slice(&self.head[start..start + part.len()]);
                }
                Place::Pad => part.fill(0),
                Place::Data { variable, record, byte } => {
                    let slab = Slab { variable, record };
                    if self.has(slab) {
                        self.data(slab, byte, part, way)?;
                    } else {
                        part.fill(0);
                    }
                }
            }
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn data(&self, slab: Slab, start: u64, out: &mut [u8], way: Way) -> Result<()> {
        let element = self.layout.slots.get(slab.variable).map_or(1, |slot| slot.element);
        // Only the last byte of the file may lie inside of an element.
        let is_whole = start.is_multiple_of(element) && (out.len() as u64).is_multiple_of(element);
        if (way == Way::Straight && is_whole) || self.source.is_direct(slab.variable) {
            return self.source.fill(slab, start, out);
        }
        let mut filled = 0;
        while filled < out.len() {
            let at = start + filled as u64;
            let tile = self.tile_around(slab.variable, at);
            let bytes = self.tile(slab, &tile)?;
            let rest = &bytes[(at - tile.start) as usize..];
            let count = rest.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&rest[..count]);
            self.cache.was_read((self.number, slab, tile.start), bytes, count as u64);
            filled += count;
        }
        Ok(())
    }

    fn tile(&self, slab: Slab, tile: &Range<u64>) -> Result<std::sync::Arc<Vec<u8>>> {
        let bytes = (tile.end - tile.start) as usize;
        self.cache.get((self.number, slab, tile.start), bytes, |part| {
            self.source.fill(slab, tile.start, part)
        })
    }

    /// Where the part of the file ends that is assembled together with the byte at `offset`.
    #[must_use]
    pub fn end_of_part(&self, offset: u64) -> u64 {
        let piece = self.layout.piece(offset);
        let end = piece.range.end.min(self.size).max(offset);
        match piece.place {
            Place::Header => end,
            Place::Pad => end.min(offset + LEAST),
            Place::Data { variable, byte, .. } => {
                let tile = self.tile_around(variable, byte);
                (offset + tile.end - byte).min(end)
            }
        }
    }

    /// Assembles a few mebibytes from `offset` on, for later calls of [`Logical::read_at`]; returns
    /// where that ends.
    ///
    /// # Errors
    ///
    /// If a file of the set cannot be read.
    pub fn prepare(&self, offset: u64) -> Result<u64> {
        let mut at = offset;
        while at < self.size && at - offset < LEAST {
            if let Place::Data { variable, record, byte } = self.layout.piece(at).place {
                let slab = Slab { variable, record };
                if self.has(slab) && !self.source.is_direct(variable) {
                    self.tile(slab, &self.tile_around(variable, byte))?;
                }
            }
            at = self.end_of_part(at);
        }
        Ok(at)
    }
}

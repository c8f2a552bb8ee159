//! Pending writes, accepted and not yet in the file: a copy of their bytes, and where these
//! belong.
//!
//! Bytes are copied once, into memory in large parts. Where they belong is kept as strips: pieces
//! of one length at equal distances cost as much as one piece, even if they came from several
//! calls.

mod part;
mod pieces;
mod run;
mod write;

use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_container::blob::Strip;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use part::Part;
use pieces::Piece;
use run::Run;

/// Bytes of a part, unless a single write is longer.
const PART: usize = 4 << 20;

/// Bytes of a first write that others of its kind will follow.
const LARGE: usize = 64 << 10;

/// Accepted writes, in the order in which they came. The place of a byte among all of them is its
/// *position*.
#[derive(Debug, Default)]
pub struct Pending {
    parts: Vec<Part>,
    runs: Vec<Run>,
    bytes: u64,
    pieces: u64,
    /// From the first byte of the file to the last.
    hull: Extent,
}

impl Pending {
    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Contiguous pieces that are kept.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Groups of pieces at equal distances.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// From the first byte of the file that is kept to the last.
    pub fn hull(&self) -> Extent {
        self.hull
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Takes in `len` bytes of `memory` for the bytes that `view` shows from `position` on.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for them; then nothing has changed.
    pub fn add(&mut self, view: &View, position: u64, memory: &Memory, len: u64) -> Result<()> {
        let no_memory = || {
            let text = format!("no memory to keep {len} bytes until they are written");
            Error::new(ErrorClass::NoMem, text)
        };
        let size = usize::try_from(len).map_err(|_| no_memory())?;
        if self.parts.last().is_none_or(|part| part.room() < size) {
            // The first may stay nearly empty, after small writes; one more page of 4 KiB costs a
            // fault each.
            let in_large_pages = !self.parts.is_empty() || size >= LARGE;
            self.parts.push(Part::new(size.max(PART), in_large_pages).ok_or_else(no_memory)?);
        }
        let Some(part) = self.parts.last_mut() else { return Err(no_memory()) };
        let mut goes_on = part.used() > 0;
        part.fill(size, |room| {
            memory.gather(0, room);
        });
        for extent in view.extents(position, len) {
            self.pieces += 1;
            if !goes_on || !self.runs.last_mut().is_some_and(|run| run.extend(extent)) {
                self.runs.push(Run { strip: Strip::one(extent), position: self.bytes });
            }
            goes_on = true;
            self.bytes += extent.len;
        }
        self.hull = self.hull.hull(view.span(position, len));
        Ok(())
    }

    /// Puts older writes before these.
    pub fn add_before(&mut self, older: Pending) {
        let mut newer = std::mem::replace(self, older);
        let moved = |run: Run| Run { position: run.position + self.bytes, ..run };
        self.runs.extend(newer.runs.drain(..).map(moved));
        self.parts.append(&mut newer.parts);
        self.bytes += newer.bytes;
        self.pieces += newer.pieces;
        self.hull = self.hull.hull(newer.hull);
    }

    /// A copy of the bytes of `extent`.
    ///
    /// # Errors
    /// As [`Pending::add`] and [`Pending::as_one_write`].
    pub fn copy_of(&self, extent: Extent) -> Result<Pending> {
        let mut copy = Pending::default();
        for piece in self.touching(extent).filter_map(|piece| piece.within(extent)) {
            let (view, memory) = self.as_write_of(&[Run::one(piece)])?;
            copy.add(&view, 0, &memory, piece.extent.len)?;
        }
        Ok(copy)
    }

    /// Whether bytes of `extent` are kept.
    pub fn touches(&self, extent: Extent) -> bool {
        self.touching(extent).next().is_some()
    }

    fn touching(&self, extent: Extent) -> impl Iterator<Item = Piece> {
        let runs = if self.hull.intersect(extent).is_empty() { &[][..] } else { &self.runs };
        let touches = move |run: &&Run| !run.span().intersect(extent).is_empty();
        let pieces = runs.iter().filter(touches).flat_map(Run::pieces);
        pieces.filter(move |piece| !piece.extent.intersect(extent).is_empty())
    }
}

#[cfg(test)]
mod tests;

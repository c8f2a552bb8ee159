//! Pending writes, accepted and not yet in the file: a copy of their bytes, and where these
//! belong.
//!
//! Bytes are copied once, into memory in large parts. Where they belong is kept as strips: pieces
//! of one length at equal distances cost as much as one piece, even if they came from several
//! calls.

mod contest;
mod moment;
mod part;
mod pieces;
mod run;
mod saved;
mod spans;
mod spill;
mod write;

pub use contest::{Contest, Written};
pub use moment::Moment;
pub use spans::Spans;
pub use spill::Spill;
pub use write::Choice;

use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_container::blob::Strip;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use moment::Moments;
use part::Part;
use pieces::Piece;
use run::Run;
use saved::Saved;

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
    moments: Moments,
    saved: Saved,
    bytes: u64,
    /// Of these, bytes in files.
    spilled: u64,
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

    /// Bytes of memory for bookkeeping, without the data.
    pub fn bookkeeping(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.moments.memory()
    }

    /// Takes in `len` bytes of `memory` for the bytes that `view` shows from `position` on, written
    /// at `moment`.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for them, `Io` if a file cannot keep them; then nothing has
    /// changed.
    pub fn add(
        &mut self,
        view: &View,
        position: u64,
        memory: &Memory,
        len: u64,
        moment: Moment,
    ) -> Result<()> {
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
        let fill = |room: &mut [u8]| {
            memory.gather(0, room);
        };
        if !part.fill(size, fill) {
            return Err(write::lost());
        }
        self.spilled += if part.is_in_file() { len } else { 0 };
        self.moments.note(self.bytes, len, moment);
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

    /// Puts newer writes behind these.
    pub fn add_after(&mut self, mut newer: Pending) {
        self.saved.append(self.bytes, &newer.saved);
        self.moments.append(self.bytes, &mut newer.moments);
        let moved = |run: Run| Run { position: run.position + self.bytes, ..run };
        self.runs.extend(newer.runs.drain(..).map(moved));
        self.parts.append(&mut newer.parts);
        self.bytes += newer.bytes;
        self.spilled += newer.spilled;
        self.pieces += newer.pieces;
        self.hull = self.hull.hull(newer.hull);
    }

    /// Puts older writes before these.
    pub fn add_before(&mut self, mut older: Pending) {
        older.add_after(std::mem::take(self));
        *self = older;
    }

    /// Records that all bytes are in the file, except those of `last`; they are kept all the same.
    pub fn note_saved(&mut self, last: Extent) {
        self.saved = Saved::upto(self.bytes, last);
    }

    /// Records that all bytes are to be written, even those written before: others may have come
    /// after them.
    pub fn note_unsaved(&mut self) {
        self.saved = Saved::default();
    }

    /// Whether some are in the file.
    pub fn is_saved(&self) -> bool {
        !self.saved.is_empty()
    }

    /// Takes out the bytes that are not in the file, for which a copy is made; the others are left.
    ///
    /// # Errors
    /// As [`Pending::add`] and [`Pending::as_one_write`]; then nothing has changed.
    pub fn take_unsaved(&mut self) -> Result<Pending> {
        let mut taken = Pending::default();
        if self.saved.is_empty() {
            return Ok(std::mem::take(self));
        }
        self.check(&self.runs)?;
        let unsaved = self.all_pieces().flat_map(|piece| self.saved.unsaved(piece));
        for (piece, moment) in unsaved.flat_map(|piece| self.moments_of(piece)) {
            let (view, memory) = self.as_write_of(&[Run::one(piece)])?;
            taken.add(&view, 0, &memory, piece.extent.len, moment)?;
        }
        Ok(taken)
    }

    /// Drops the bytes; their places and moments stay.
    pub fn without_data(mut self) -> Self {
        self.parts.clear();
        self.spilled = 0;
        self
    }

    /// Bytes that are in the memory of this process only.
    pub fn unsaved_bytes(&self) -> u64 {
        if self.saved.is_empty() {
            return self.bytes;
        }
        let pieces = self.all_pieces().flat_map(|piece| self.saved.unsaved(piece));
        pieces.map(|piece| piece.extent.len).sum()
    }

    /// Whether bytes of `extent` are kept.
    pub fn touches(&self, extent: Extent) -> bool {
        self.touching(extent).next().is_some()
    }

    /// Whether bytes of `extent` are in the memory of this process only.
    pub fn awaits(&self, extent: Extent) -> bool {
        let mut unsaved = self.touching(extent).flat_map(|piece| self.saved.unsaved(piece));
        unsaved.any(|piece| !piece.extent.intersect(extent).is_empty())
    }

    fn touching(&self, extent: Extent) -> impl Iterator<Item = Piece> {
        let runs = if self.hull.intersect(extent).is_empty() { &[][..] } else { &self.runs };
        let touches = move |run: &&Run| !run.span().intersect(extent).is_empty();
        let pieces = runs.iter().filter(touches).flat_map(Run::pieces);
        pieces.filter(move |piece| !piece.extent.intersect(extent).is_empty())
    }

    /// Bytes of the file, and when they were written, in the order of the writes.
    pub fn moments(&self) -> impl Iterator<Item = (Extent, Moment)> {
        let all = self.all_pieces().flat_map(|piece| self.moments_of(piece));
        all.map(|(piece, moment)| (piece.extent, moment))
    }

    /// The same in the order of the file, each byte once: when it was written last.
    pub fn newest_moments(&self) -> impl Iterator<Item = (Extent, Moment)> {
        let runs = pieces::ascending(self.runs.iter().copied()).into_iter();
        let parts = runs.flat_map(|run| run.pieces()).flat_map(|piece| self.moments_of(piece));
        parts.map(|(piece, moment)| (piece.extent, moment))
    }

    /// The piece in parts of one moment each.
    fn moments_of(&self, piece: Piece) -> impl Iterator<Item = (Piece, Moment)> {
        let mut position = piece.position;
        std::iter::from_fn(move || {
            (position < piece.end()).then(|| {
                let (moment, next) = self.moments.at(position);
                let part = piece.part(position, next.min(piece.end()));
                position = part.end();
                (part, moment)
            })
        })
    }

    fn all_pieces(&self) -> impl Iterator<Item = Piece> {
        self.runs.iter().flat_map(Run::pieces)
    }

    /// The runs at `position` and behind it.
    fn runs_from(&self, position: u64) -> Vec<Run> {
        let first = self.runs.partition_point(|run| run.end() <= position);
        let mut runs = Vec::with_capacity(self.runs.len() - first);
        for run in &self.runs[first..] {
            if run.position >= position {
                runs.push(*run);
                continue;
            }
            let left = run.pieces().filter(|piece| piece.end() > position);
            let cut = |piece: Piece| piece.part(piece.position.max(position), piece.end());
            runs.extend(left.map(cut).map(Run::one));
        }
        runs
    }
}

#[cfg(test)]
mod tests;

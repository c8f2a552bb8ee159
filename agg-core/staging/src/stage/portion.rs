//! Scattered data on its way into the stage, or piece by piece into the file.

use super::Stage;
use super::staged::StagedFile;
use aggio_base::report::Counters;
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_store::driver::{Outcome, generic};
use aggio_types::memory::Memory;
use aggio_types::view::View;

/// Bytes of pieces that are staged in one step.
const PORTION: usize = 4 << 20;
/// Pieces that are staged in one step.
const PIECES: usize = 64 << 10;

/// A part of a write.
pub(super) struct Portion<'a> {
    file: &'a StagedFile,
    stage: Option<&'a Stage>,
    counters: &'a Counters,
    data: Vec<u8>,
    /// File ranges of the data, in its order.
    pieces: Vec<Extent>,
    /// Bytes that were written.
    bytes: u64,
}

impl<'a> Portion<'a> {
    /// Nothing yet, of a write to `file`; to the file itself without a `stage`.
    pub(super) fn of(
        file: &'a StagedFile,
        stage: Option<&'a Stage>,
        counters: &'a Counters,
    ) -> Self {
        Self { file, stage, counters, data: Vec::new(), pieces: Vec::new(), bytes: 0 }
    }

    /// Writes `memory` to the bytes of `view` from data byte `pos` on.
    pub(super) fn write(mut self, view: &View, pos: u64, memory: &Memory) -> Outcome {
        let result = self.write_all(view, pos, memory);
        Outcome { bytes: self.bytes, result }
    }

    fn write_all(&mut self, view: &View, pos: u64, memory: &Memory) -> Result<()> {
        let (len, mut cursor) = (memory.len(), memory.cursor(0));
        let mut placed = 0;
        for extent in view.extents(pos, len) {
            generic::check_range(extent.offset, extent.len)?;
            let mut rest = extent;
            while rest.len > 0 {
                let room = (PORTION - self.data.len()) as u64;
                let part = Extent::new(rest.offset, rest.len.min(room));
                let start = self.data.len();
                self.data.resize(start + part.len as usize, 0);
                cursor.gather(&mut self.data[start..]);
                self.pieces.push(part);
                rest = Extent::new(part.end(), rest.len - part.len);
                if self.data.len() == PORTION || self.pieces.len() == PIECES {
                    self.flush()?;
                }
            }
            placed += extent.len;
        }
        self.flush()?;
        if placed < len {
            let missing = Extent::new(pos.saturating_add(placed), len - placed);
            let why = "the file view ends before the data does";
            return Err(Error::new(ErrorClass::Arg, why).with_extent(missing));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let (mut rest, mut pieces) = (&*self.data, Vec::with_capacity(self.pieces.len()));
        for piece in &self.pieces {
            let (data, behind) = rest.split_at(piece.len as usize);
            pieces.push((piece.offset, data));
            rest = behind;
        }
        match self.stage {
            Some(stage) => {
                let outcome = self.file.put(stage, &pieces, self.counters);
                self.bytes += outcome.bytes;
                outcome.result?;
            }
            None => {
                for (at, data) in pieces {
                    let outcome = self.file.straight(data, at, self.counters);
                    self.bytes += outcome.bytes;
                    outcome.result?;
                }
            }
        }
        self.data.clear();
        self.pieces.clear();
        Ok(())
    }
}

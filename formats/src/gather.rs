//! Bytes that lie scattered in a file, read in large pieces and put where they belong.

use crate::cdf::Endian;
use crate::error::Result;
use crate::files::Files;

/// Bytes that are read at a time.
const PIECE: u64 = if cfg!(test) { 100 } else { 8 << 20 };
/// Unwanted bytes between two wanted ones that are read along.
const GAP: u64 = if cfg!(test) { 30 } else { 64 << 10 };

/// Bytes that lie together in the file and in the buffer.
#[derive(Clone, Copy)]
struct Run {
    from: u64,
    to: usize,
    len: usize,
}

/// Fills a buffer from one file at a time.
pub(crate) struct Gather<'a> {
    files: &'a dyn Files,
    file: usize,
    /// Bytes of an element that must be turned round; zero if none.
    turned: u64,
    out: &'a mut [u8],
    pending: Vec<Run>,
    end: u64,
    scratch: Vec<u8>,
}

impl<'a> Gather<'a> {
    /// Fills `out`.
    pub(crate) fn new(files: &'a dyn Files, out: &'a mut [u8]) -> Self {
        let (pending, scratch) = (Vec::new(), Vec::new());
        Gather { files, file: 0, turned: 0, out, pending, end: 0, scratch }
    }

    /// The next file, and the order of its bytes.
    pub(crate) fn begin(&mut self, file: usize, endian: Endian, element: u64) -> Result<()> {
        self.flush()?;
        self.file = file;
        self.turned = if endian == Endian::Little { element } else { 0 };
        Ok(())
    }

    /// `len` bytes at `from` of the file belong at `to` of the buffer.
    pub(crate) fn push(&mut self, from: u64, to: usize, len: usize) -> Result<()> {
        let end = from + len as u64;
        let joins = self.pending.first().is_some_and(|first| {
            from >= self.end && from - self.end <= GAP && end - first.from <= PIECE
        });
        if !joins {
            self.flush()?;
        }
        self.pending.push(Run { from, to, len });
        self.end = end;
        Ok(())
    }

    /// Fills the whole buffer with the bytes at `from`.
    pub(crate) fn whole(&mut self, from: u64) -> Result<()> {
        self.push(from, 0, self.out.len())?;
        self.flush()
    }

    /// Reads the pending bytes.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Some(first) = self.pending.first().copied() else { return Ok(()) };
        if self.pending.len() == 1 {
            let part = &mut self.out[first.to..first.to + first.len];
            self.files.read(self.file, part, first.from)?;
            crate::cdf::swap(part, self.turned);
        } else {
            // The pending bytes span no more than `PIECE` bytes.
            self.scratch.resize((self.end - first.from) as usize, 0);
            self.files.read(self.file, &mut self.scratch, first.from)?;
            for run in &self.pending {
                let start = (run.from - first.from) as usize;
                let part = &mut self.out[run.to..run.to + run.len];
                part.copy_from_slice(&self.scratch[start..start + run.len]);
                crate::cdf::swap(part, self.turned);
            }
        }
        self.pending.clear();
        Ok(())
    }
}

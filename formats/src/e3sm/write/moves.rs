//! Elements of blobs that lie together where the file is stored: they are copied from there without
//! being looked at.

use super::content::{Content, Sink, Store, Stored};
use super::slabs::{Blob, Slab, clipped};
use crate::error::Result;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that must lie together, on average, so that copying them is quicker than gathering them in
/// memory.
const LONG: u64 = if cfg!(test) { 12 } else { 32 << 10 };
/// After so many parts in a row that do not lie together, the place of bytes is no longer looked
/// up.
const PATIENCE: u32 = 3;

/// Copies from where the file is stored to a subfile.
pub(super) struct Mover<'a> {
    store: &'a dyn Store,
    to: &'a File,
    /// Parts of the file that did not lie together, since one did.
    missed: AtomicU32,
}

impl<'a> Mover<'a> {
    /// `None` where bytes can be written only from memory.
    pub(super) fn new(content: &'a dyn Content, sink: &'a dyn Sink) -> Option<Self> {
        let (store, to) = (content.store()?, sink.file()?);
        Some(Mover { store, to, missed: AtomicU32::new(0) })
    }

    /// Copies the elements of all blobs in a tile of a slab, if their bytes need not be turned
    /// round; `false`, and nothing is done, if they do not lie together.
    pub(super) fn copy(&self, slab: Slab, blobs: &[Blob<'_>], tile: &Range<u64>) -> Result<bool> {
        if slab.turned > 1 || self.missed.load(Ordering::Relaxed) >= PATIENCE {
            return Ok(false);
        }
        let stored = self.store.find(slab.bytes(tile))?;
        let mut moves = Moves::default();
        blobs.iter().for_each(|blob| moves.add_blob(slab, blob, tile, &stored));
        if !moves.are_long() {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        self.missed.store(0, Ordering::Relaxed);
        for (bytes, to) in moves.all {
            self.store.copy(bytes, self.to, to)?;
        }
        Ok(true)
    }
}

/// The sources of bytes and their destinations. Only the length of a range counts: the bytes of a
/// blob that lie together where they are stored need not do so in the file.
#[derive(Default)]
struct Moves {
    all: Vec<(Stored, u64)>,
}

impl Moves {
    fn add_blob(&mut self, slab: Slab, blob: &Blob<'_>, tile: &Range<u64>, stored: &[Stored]) {
        let (mut rest, mut to) = (stored, blob.to);
        for run in blob.among(tile) {
            let range = slab.bytes(&clipped(*run, tile));
            rest = &rest[rest.partition_point(|part| part.range.end <= range.start)..];
            for part in rest.iter().take_while(|part| part.range.start < range.end) {
                let (start, end) =
                    (part.range.start.max(range.start), part.range.end.min(range.end));
                let place = part.place + (start - part.range.start);
                self.add(
                    Stored { range: start..end, store: part.store, place },
                    to + (start - range.start),
                );
            }
            to += range.end - range.start;
        }
    }

    /// Adds bytes that go to `to`; with those before, if they go on there as they do where they are
    /// stored.
    fn add(&mut self, bytes: Stored, to: u64) {
        if let Some((last, begin)) = self.all.last_mut() {
            let len = last.range.end - last.range.start;
            let goes_on = (last.store, last.place + len, *begin + len);
            if goes_on == (bytes.store, bytes.place, to) {
                last.range.end += bytes.range.end - bytes.range.start;
                return;
            }
        }
        self.all.push((bytes, to));
    }

    fn are_long(&self) -> bool {
        let bytes: u64 =
            self.all.iter().map(|(bytes, _)| bytes.range.end - bytes.range.start).sum();
        bytes >= LONG * self.all.len() as u64
    }
}

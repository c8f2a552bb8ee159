//! Elements of a variable, read in large pieces and put together as the blobs have them.

use super::content::{Content, read};
use super::maps::{Map, Run};
use super::moves::Mover;
use super::out::Out;
use crate::error::Result;
use std::ops::Range;

/// Bytes of a variable that are looked at, at a time.
const TILE: u64 = if cfg!(test) { 96 } else { 8 << 20 };
/// Bytes of a part of a tile. Only parts that some run needs are read.
const BLOCK: u64 = if cfg!(test) { 16 } else { 64 << 10 };

/// A variable's part of a record, in the file.
#[derive(Clone, Copy)]
pub(super) struct Slab {
    /// Where it begins.
    pub(super) begin: u64,
    /// Bytes of an element.
    pub(super) element: u64,
    pub(super) elements: u64,
    /// Bytes of an element if they are turned round, otherwise zero.
    pub(super) turned: u64,
}

impl Slab {
    /// The bytes of elements in the file.
    pub(super) fn bytes(self, elements: &Range<u64>) -> Range<u64> {
        self.begin + elements.start * self.element..self.begin + elements.end * self.element
    }
}

/// The file, and a mover of the bytes that lie together where it is stored.
pub(super) struct Source<'a> {
    pub(super) content: &'a dyn Content,
    pub(super) mover: Option<Mover<'a>>,
}

/// Copies a slab as it is.
pub(super) fn copy_whole(
    content: &dyn Content,
    slab: Slab,
    to: u64,
    out: &mut Out<'_>,
) -> Result<()> {
    let (size, mut at) = (slab.elements * slab.element, 0);
    let mut room = Vec::new();
    while at < size {
        // Elements have at most eight bytes: a tile ends between two.
        room.resize(TILE.min(size - at) as usize, 0);
        read(content, &mut room, slab.begin + at)?;
        out.at(to + at)?;
        out.put(&room, slab.turned);
        at += room.len() as u64;
    }
    Ok(())
}

/// A blob on the way through a slab.
pub(super) struct Blob<'a> {
    runs: &'a [Run],
    /// Where its next element goes.
    pub(super) to: u64,
}

/// Copies the elements of the blobs of a group, each to its place.
pub(super) fn copy_decomposed(
    source: &Source<'_>,
    slab: Slab,
    map: &Map,
    blobs: impl Iterator<Item = (u32, u64)>,
    out: &mut Out<'_>,
) -> Result<()> {
    let mut blobs: Vec<Blob<'_>> =
        blobs.map(|(writer, to)| Blob { runs: map.runs_of(writer), to }).collect();
    let per_tile = TILE / slab.element;
    let mut room = Vec::new();
    let mut start = 0;
    while start < slab.elements {
        let tile = start..(start + per_tile).min(slab.elements);
        let moved = match &source.mover {
            Some(mover) => mover.copy(slab, &blobs, &tile)?,
            None => false,
        };
        if !moved && load(source.content, slab, &blobs, &tile, &mut room)? {
            blobs.iter().try_for_each(|blob| blob.put(slab, &tile, &room, out))?;
        }
        blobs.iter_mut().for_each(|blob| blob.pass(slab, &tile));
        start = tile.end;
    }
    Ok(())
}

/// The part of a run in a tile.
pub(super) fn clipped(run: Run, tile: &Range<u64>) -> Range<u64> {
    u64::from(run.to).max(tile.start)..run.end().min(tile.end)
}

/// Reads the blocks of a tile that somebody needs; whether there are any.
fn load(
    content: &dyn Content,
    slab: Slab,
    blobs: &[Blob<'_>],
    tile: &Range<u64>,
    room: &mut Vec<u8>,
) -> Result<bool> {
    let size = (tile.end - tile.start) * slab.element;
    let mut needed = vec![false; size.div_ceil(BLOCK) as usize];
    for blob in blobs {
        for run in blob.among(tile) {
            let part = clipped(*run, tile);
            let first = (part.start - tile.start) * slab.element / BLOCK;
            let last = ((part.end - tile.start) * slab.element - 1) / BLOCK;
            needed[first as usize..=last as usize].fill(true);
        }
    }
    room.resize(size as usize, 0);
    let mut block = 0;
    for same in needed.chunk_by(|one, other| one == other) {
        let from = block * BLOCK as usize;
        block += same.len();
        let to = (block * BLOCK as usize).min(room.len());
        if same[0] {
            read(
                content,
                &mut room[from..to],
                slab.begin + tile.start * slab.element + from as u64,
            )?;
        }
    }
    Ok(needed.contains(&true))
}

impl<'a> Blob<'a> {
    /// Its runs in a tile; those before are done.
    pub(super) fn among(&self, tile: &Range<u64>) -> &'a [Run] {
        let end = self.runs.partition_point(|run| u64::from(run.to) < tile.end);
        &self.runs[..end]
    }

    fn put(&self, slab: Slab, tile: &Range<u64>, room: &[u8], out: &mut Out<'_>) -> Result<()> {
        let runs = self.among(tile);
        if runs.is_empty() {
            return Ok(());
        }
        out.at(self.to)?;
        for run in runs {
            let part = clipped(*run, tile);
            let from = ((part.start - tile.start) * slab.element) as usize;
            let to = ((part.end - tile.start) * slab.element) as usize;
            out.put(&room[from..to], slab.turned);
        }
        Ok(())
    }

    /// Passes over its elements in a tile, which are done.
    fn pass(&mut self, slab: Slab, tile: &Range<u64>) {
        let runs = self.among(tile);
        let Some(last) = runs.last() else { return };
        let elements = |run: &Run| {
            let part = clipped(*run, tile);
            part.end - part.start
        };
        self.to += runs.iter().map(elements).sum::<u64>() * slab.element;
        // One that goes on in the next tile is not done.
        let goes_on = last.end() > tile.end;
        self.runs = &self.runs[runs.len() - usize::from(goes_on)..];
    }
}

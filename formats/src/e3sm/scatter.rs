//! Elements of sorted blobs, read in one piece each and put where they belong, a part of the buffer
//! at a time.

use super::tables::Run;
use crate::cdf::Endian;
use crate::error::Result;
use crate::files::Files;
use std::cell::RefCell;
use std::ops::Range;

/// Bytes of the buffer that are filled at a time: they stay in a processor's own cache.
const BLOCK: usize = if cfg!(test) { 40 } else { 256 << 10 };
/// Longest room that a thread keeps.
const KEPT: usize = 16 << 20;

thread_local! {
    /// The buffer for bytes that were read, until they are put in their places.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The wanted part of a sorted blob.
pub(super) struct Part<'a> {
    pub(super) file: usize,
    pub(super) endian: Endian,
    /// Where the blob's elements begin in the file.
    pub(super) begin: u64,
    /// Its runs that touch the wanted elements.
    pub(super) runs: &'a [Run],
}

/// A part that was read.
struct Loaded<'a> {
    part: &'a Part<'a>,
    /// Where the bytes are.
    at: usize,
    /// The next run.
    next: usize,
}

/// A run as far as it is wanted: elements of the blob before it, wanted elements before it, and how
/// many.
fn clipped(run: &Run, wanted: &Range<u64>) -> (u64, u64, u64) {
    let to = u64::from(run.to);
    let (first, last) = (to.max(wanted.start), (to + u64::from(run.len)).min(wanted.end));
    (run.at + (first - to), first - wanted.start, last.saturating_sub(first))
}

impl Part<'_> {
    /// The elements of the blob that are wanted: those of sorted runs lie together.
    fn elements(&self, wanted: &Range<u64>) -> Range<u64> {
        let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) else { return 0..0 };
        let (start, (end, _, len)) = (clipped(first, wanted).0, clipped(last, wanted));
        start..end + len
    }
}

/// Puts the elements of all parts into `out`, which has room for the canonical elements `wanted` of
/// `size` bytes each.
pub(super) fn scatter(
    files: &dyn Files,
    parts: &[Part<'_>],
    wanted: &Range<u64>,
    size: u64,
    out: &mut [u8],
) -> Result<()> {
    ROOM.with_borrow_mut(|room| {
        let mut loaded = load(files, parts, wanted, size, room)?;
        let mut end = 0;
        while end < out.len() {
            end = (end + BLOCK).min(out.len());
            for one in &mut loaded {
                one.put(room, wanted, size, end, out);
            }
        }
        if room.len() > KEPT {
            *room = Vec::new();
        }
        Ok(())
    })
}

/// Reads all parts; those that lie behind each other in one request.
fn load<'a>(
    files: &dyn Files,
    parts: &'a [Part<'a>],
    wanted: &Range<u64>,
    size: u64,
    room: &mut Vec<u8>,
) -> Result<Vec<Loaded<'a>>> {
    let (mut loaded, mut reads, mut filled) = (Vec::new(), Vec::<(usize, u64, u64)>::new(), 0);
    for part in parts {
        let elements = part.elements(wanted);
        let (from, len) =
            (part.begin + elements.start * size, (elements.end - elements.start) * size);
        match reads.last_mut() {
            Some((file, start, bytes)) if *file == part.file && *start + *bytes == from => {
                *bytes += len
            }
            _ => reads.push((part.file, from, len)),
        }
        // No element is wanted twice: all together are no more than the buffer.
        loaded.push(Loaded { part, at: filled as usize, next: 0 });
        filled += len;
    }
    if room.len() < filled as usize {
        room.resize(filled as usize, 0);
    }
    let mut rest = &mut room[..filled as usize];
    for (file, from, len) in reads {
        let (piece, others) = rest.split_at_mut(len as usize);
        files.read(file, piece, from)?;
        rest = others;
    }
    Ok(loaded)
}

impl Loaded<'_> {
    /// Puts the runs in their places that begin before `end` of the buffer.
    fn put(&mut self, room: &[u8], wanted: &Range<u64>, size: u64, end: usize, out: &mut [u8]) {
        while let Some(run) = self.part.runs.get(self.next) {
            let (_, to, count) = clipped(run, wanted);
            // Inside of the buffer, and of the bytes that were read.
            let (to, len) = ((to * size) as usize, (count * size) as usize);
            if to >= end {
                return;
            }
            let from = &room[self.at..self.at + len];
            copy(from, &mut out[to..to + len], size, self.part.endian);
            self.at += len;
            self.next += 1;
        }
    }
}

/// Copies elements; a call for each handful of them would cost more than the copy.
fn copy(from: &[u8], to: &mut [u8], size: u64, endian: Endian) {
    match (size, endian) {
        (8, Endian::Little) => each::<8>(from, to, |value| value.reverse()),
        (4, Endian::Little) => each::<4>(from, to, |value| value.reverse()),
        (2, Endian::Little) => each::<2>(from, to, |value| value.reverse()),
        (8, Endian::Big) if from.len() <= 64 => each::<8>(from, to, |_| ()),
        (4, Endian::Big) if from.len() <= 32 => each::<4>(from, to, |_| ()),
        _ => to.copy_from_slice(from),
    }
}

fn each<const N: usize>(from: &[u8], to: &mut [u8], turn: impl Fn(&mut [u8; N])) {
    for (value, place) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
        let mut value = *value;
        turn(&mut value);
        *place = value;
    }
}

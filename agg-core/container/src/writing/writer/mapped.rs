//! Bytes of the file that are changed in memory: they lie in a log as they do in the file, page by
//! page, so that programs can map them there, and from then on all writers change them in place. A
//! page keeps its place as long as anybody writes, also when the file is cut and grows again.

use crate::errors::failed;
use crate::format::{Kind, Strip};
use crate::log::{Log, Words};
use crate::order::Word;
use crate::reading::{Placed, Reader, Segment};
use crate::writing::writer::{Frame, Writer};
use aggio_base::{Error, ErrorClass, Extent, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};

/// Bytes that are copied or made zeros at a time.
const CHUNK: u64 = 1 << 20;

impl Placed {
    /// Whether the bytes of `segment`, which are among these, are changed in place.
    fn has(&self, segment: &Segment) -> bool {
        let place = self.place + (segment.logical.offset - self.logical.offset);
        segment.source == Some((self.log, place))
    }
}

fn not_here() -> Error {
    let words = "bytes of this container cannot be changed in memory: its file system maps nothing";
    Error::new(ErrorClass::UnsupportedOperation, words).with_errno(libc::ENODEV)
}

impl Writer {
    /// Places every byte of `range` that the file has where it can be mapped, page by page, and be
    /// changed in place from now on; `range` begins at a page. Returns the places, in the order of
    /// the file.
    ///
    /// # Errors
    ///
    /// If the file system maps nothing, or the bytes cannot be copied to such a place.
    pub fn place_pages(&self, range: Extent, page: u64) -> Result<Vec<Placed>> {
        if !self.order.is_counted()? {
            return Err(not_here());
        }
        let mut log = self.log();
        // A concurrent writer either sees this before its frame gets a number, or its frame is
        // older than those here and it stores its bytes once more, in place.
        self.order.store(Word::Mapped, 1)?;
        fence(Ordering::SeqCst);
        let _turn = self.order.turn()?;
        let range = range.intersect(Extent::new(0, self.size.settled()?));
        let reader = self.size.newest()?;
        let (mut placed, mut done) = (Vec::new(), range.offset);
        for home in reader.homes(range) {
            let before = Extent::between(done, home.logical.offset);
            placed.extend(self.place_rest(&mut log, reader, before, page)?);
            placed.push(home);
            done = home.logical.end();
        }
        let behind = Extent::between(done, range.end());
        placed.extend(self.place_rest(&mut log, reader, behind, page)?);
        placed.iter().try_for_each(|part| self.pages.file(part.log).map(drop))?;
        self.bring_home(&mut log, range)?;
        Ok(placed)
    }

    /// Copies bytes of the file to pages of the log; holes stay holes.
    fn place_rest(
        &self,
        log: &mut Log,
        reader: &Reader,
        logical: Extent,
        page: u64,
    ) -> Result<Option<Placed>> {
        if logical.is_empty() {
            return Ok(None);
        }
        let seq = self.order.add(Word::Next, 1)?;
        let fill = |file: &File, place: u64| {
            let segments = reader.segments(logical)?;
            for segment in segments.iter().filter(|segment| segment.source.is_some()) {
                copy(reader, segment.logical, |bytes, at| {
                    let to = place + (at - logical.offset);
                    file.write_all_at(bytes, to)
                        .map_err(|error| failed("pwrite", &error, self.shared.dir.path()))
                })?;
            }
            Ok(())
        };
        let place = log.append_pages(&self.shared.dir, (logical, seq, page), fill)?;
        self.completed()?;
        let log = log.id().unwrap_or_default();
        Ok(Some(Placed { logical, log, place }))
    }

    /// Copies the bytes of `range` that belong to mapped pages back there, after a write or a
    /// growth; the caller has the turn. Bytes that find no room are tried again the next time.
    pub(crate) fn bring_home(&self, log: &mut Log, range: Extent) -> Result<()> {
        if !self.order.is_mapped()? {
            return Ok(());
        }
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let start = if owed.is_empty() { range.offset } else { range.offset.min(owed.offset) };
        *owed = Extent::between(start, range.end().max(owed.end()));
        let reader = self.size.newest()?;
        for home in reader.homes(owed.intersect(Extent::new(0, reader.size()))) {
            let segments = reader.segments(home.logical)?;
            for away in segments.chunk_by(|a, b| home.has(a) == home.has(b)) {
                if let [first, .., last] | [first @ last] = away
                    && !home.has(first)
                {
                    away.iter().try_for_each(|segment| self.carry(reader, home, segment))?;
                    let extent = Extent::between(first.logical.offset, last.logical.end());
                    home.part(extent).map_or(Ok(()), |part| self.say_again(log, part))?;
                }
            }
        }
        *owed = Extent::default();
        Ok(())
    }

    /// Copies the bytes of a segment to their pages.
    fn carry(&self, reader: &Reader, home: Placed, segment: &Segment) -> Result<()> {
        let Some(to) = home.part(segment.logical) else { return Ok(()) };
        match segment.source {
            Some(_) => copy(reader, to.logical, |bytes, at| {
                self.pages.write(to.log, bytes, to.place + (at - to.logical.offset))
            }),
            None => self.pages.clear(to),
        }
    }

    /// Appends a frame that records that bytes lie in their pages again.
    fn say_again(&self, log: &mut Log, there: Placed) -> Result<()> {
        let away = there.logical;
        let there = Strip { start: there.place, length: there.log, stride: 0, count: 1 };
        let seq = self.order.add(Word::Next, 1)?;
        let strips = [Strip::one(away), there];
        let words = Words { kind: Kind::Again, strips: &strips, seq, last_seq: seq };
        log.append(&self.shared.dir, &words, &[])?;
        self.completed()
    }

    /// After a truncation: clears mapped pages behind the end of the file to zeros; the caller has
    /// the turn.
    pub(crate) fn clear_behind(&self, size: u64) -> Result<()> {
        if !self.order.is_mapped()? {
            return Ok(());
        }
        let behind = Extent::between(size, u64::MAX);
        self.size.newest()?.homes(behind).into_iter().try_for_each(|home| self.pages.clear(home))
    }

    /// A log, opened to be changed in place or mapped.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn part(&self, id: u64) -> Result<Arc<File>> {
        self.pages.file(id)
    }

    /// Stores a write where bytes may be changed in memory: those in place, and the others in
    /// frames. If there is no room for all of it, a part may have been stored.
    pub(super) fn write_in_place(&self, frame: &Frame<'_>) -> Result<()> {
        let pieces = frame.strips.iter().flat_map(|strip| {
            (0..strip.count).map(|k| {
                let start = strip.start.wrapping_add((strip.stride as u64).wrapping_mul(k));
                Extent::new(start, strip.length)
            })
        });
        let mut log = self.log();
        let _turn = self.order.turn()?;
        let mut first = self.size.settled()?;
        let reader = self.size.newest()?;
        for (extent, bytes) in pieces.zip(frame.data) {
            let part = |range: Extent| {
                let start = (range.offset - extent.offset) as usize;
                &bytes[start..start + range.len as usize]
            };
            for (range, place) in split(reader, extent)? {
                match place {
                    Some(place) => self.pages.write(place.log, part(range), place.place)?,
                    None => {
                        first = first.min(range.offset);
                        let (strips, data) = ([Strip::one(range)], [part(range)]);
                        let end = range.end();
                        let rest = Frame { strips: &strips, pieces: 1, end, data: &data };
                        self.append_frame(&mut log, &rest)?;
                    }
                }
            }
        }
        self.size.raise(frame.end)?;
        self.bring_home(&mut log, Extent::between(first, frame.end))
    }

    /// As [`write_in_place`](Writer::write_in_place) with zeros; the size stays.
    pub(crate) fn punch_in_place(&self, range: Extent) -> Result<()> {
        let mut log = self.log();
        let _turn = self.order.turn()?;
        for (range, place) in split(self.size.newest()?, range)? {
            match place {
                Some(place) => self.pages.clear(place)?,
                None => self.event(&mut log, Kind::Hole, range)?,
            }
        }
        Ok(())
    }
}

/// A part of a write, and where its bytes are changed, if they are in place.
type Part = (Extent, Option<Placed>);

/// The parts of `extent`, in the order of the file.
fn split(reader: &Reader, extent: Extent) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut done = extent.offset;
    for home in reader.homes(extent) {
        for segment in reader.segments(home.logical)?.iter().filter(|segment| home.has(segment)) {
            parts.push((Extent::between(done, segment.logical.offset), None));
            parts.push((segment.logical, home.part(segment.logical)));
            done = segment.logical.end();
        }
    }
    parts.push((Extent::between(done, extent.end()), None));
    parts.retain(|(range, _)| !range.is_empty());
    Ok(parts)
}

/// Calls `take` with all bytes of `extent`, a part at a time.
fn copy(
    reader: &Reader,
    extent: Extent,
    mut take: impl FnMut(&[u8], u64) -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK.min(extent.len) as usize];
    let mut at = extent.offset;
    while at < extent.end() {
        let len = CHUNK.min(extent.end() - at) as usize;
        let n = reader.read_at(&mut buffer[..len], at)?;
        if n == 0 {
            break;
        }
        take(&buffer[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

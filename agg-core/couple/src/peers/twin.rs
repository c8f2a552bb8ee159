//! What a copy was when its node and the owner last had the same bytes: what differs from that was
//! written on the node since, byte by byte.

use super::differences::Differences;
use crate::areas::{data, read_all, write_all};
use crate::fd::owned;
use aggio_base::Extent;
use aggio_base::keyed::digest;
use aggio_base::os;
use aggio_base::overlay::Overlay;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Bytes that are compared at a time.
pub(crate) const PIECE: u64 = super::PIECE;

/// Any two keys: a program that could make two texts with one digest may write the file as well.
const KEYS: [[u64; 2]; 2] = [[5, 6], [7, 8]];

/// Bytes that are compared as one before single ones are.
const STRIDE: usize = 64;

/// The digest by which two texts are the same.
pub(crate) fn mark(bytes: &[u8]) -> [u64; 2] {
    KEYS.map(|key| digest(key, bytes))
}

/// The ranges, in order and as long as they can be, in which two texts of one length differ.
fn differences(one: &[u8], other: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at, len) = (Vec::new(), 0, one.len().min(other.len()));
    while at < len {
        let end = (at + STRIDE).min(len);
        if one[at..end] == other[at..end] {
            at = end;
        } else if one[at] == other[at] {
            at += 1;
        } else {
            let start = at;
            while at < len && one[at] != other[at] {
                at += 1;
            }
            found.push(start..at);
        }
    }
    found
}

/// Fewer and longer ranges, with the gaps between those that are less than a page apart.
fn joined(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut().filter(|last| range.start - last.end < os::page_size()) {
            Some(last) => last.end = range.end,
            None => all.push(range.clone()),
        }
    }
    all
}

/// Lets a file have no fewer than `size` bytes. It may grow at the same time, and must not shrink.
pub(crate) fn grow(fd: RawFd, size: u64) -> io::Result<()> {
    if os::fstat(fd)?.st_size.unsigned_abs() >= size || size == 0 {
        return Ok(());
    }
    os::fallocate(fd, Extent::new(size - 1, 1), false)
}

/// Writes [parts](super::differences) to a file, but nothing from `limit` on.
///
/// # Errors
/// The system's.
pub(crate) fn apply(fd: RawFd, parts: &[(u64, &[u8])], limit: u64) -> io::Result<()> {
    for (offset, bytes) in parts.iter().filter(|(offset, _)| *offset < limit) {
        let len = usize::try_from(limit - offset).unwrap_or(usize::MAX).min(bytes.len());
        write_all(fd, &bytes[..len], *offset)?;
    }
    Ok(())
}

/// The bytes that a copy and its owner had in common. Those that were never there are zeros.
#[derive(Debug, Default)]
pub(crate) struct Twin {
    file: Option<OwnedFd>,
    size: u64,
    /// Memory counts as written where none was before, with any bytes in it.
    tells_memory: bool,
}

/// The bytes that were written to a piece of a copy.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Bodies of messages, with the bytes that differ.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Extents that have memory now, and had none.
    pub(crate) memory: Vec<Extent>,
}

impl Twin {
    /// A twin that also tells where zeros were written: the owner's file gets memory there.
    pub(crate) fn that_tells_memory() -> Self {
        Self { tells_memory: true, ..Self::default() }
    }

    /// Whether others read the sent bytes before the file is complete.
    pub(crate) fn is_early(&self) -> bool {
        self.tells_memory
    }

    /// The file of the twin, which is made if it is missing.
    fn file(&mut self) -> io::Result<RawFd> {
        if self.file.is_none() {
            self.file = Some(owned(os::memory_file(c"aggio-twin")?));
        }
        Ok(self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.file {
            Some(file) => read_all(file.as_raw_fd(), buffer, offset),
            None => {
                buffer.fill(0);
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.file.is_none() && bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        write_all(self.file()?, bytes, offset)
    }

    /// The owner's file has so many bytes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn set_size(&mut self, size: u64) -> io::Result<()> {
        if size < self.size
            && let Some(file) = &self.file
            && os::fstat(file.as_raw_fd())?.st_size.unsigned_abs() > size
        {
            os::ftruncate(file.as_raw_fd(), size)?;
        }
        self.size = size;
        Ok(())
    }

    /// The pieces, by number, in which a copy of `size` bytes may differ.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn pieces(&self, copy: RawFd, size: u64) -> io::Result<BTreeSet<u64>> {
        let mut found = BTreeSet::new();
        for fd in std::iter::once(copy).chain(self.file.as_ref().map(AsRawFd::as_raw_fd)) {
            data(fd, |offset, len| {
                found.extend(offset / PIECE..=(offset + len as u64 - 1) / PIECE);
                Ok(())
            })?;
        }
        found.retain(|piece| piece * PIECE < size);
        Ok(found)
    }

    /// What was written to a piece of a copy of `size` bytes, which is in common from now on: what
    /// differs, and what programs have reported.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn take(
        &mut self,
        copy: RawFd,
        piece: u64,
        size: u64,
        reported: &Overlay<()>,
    ) -> io::Result<Taken> {
        let start = piece * PIECE;
        let len = PIECE.min(size.saturating_sub(start)) as usize;
        let (mut now, mut before) = (vec![0; len], vec![0; len]);
        read_all(copy, &mut now, start)?;
        self.read(&mut before, start)?;
        let memory = match self.tells_memory {
            true => self.new_memory(copy, start, len as u64)?,
            false => Vec::new(),
        };
        for extent in &memory {
            let file = self.file()?;
            let pages = (extent.offset..extent.end()).step_by(os::page_size());
            pages.into_iter().try_for_each(|page| write_all(file, &[0], page))?;
        }
        let (mut bodies, mut body) = (Vec::new(), Differences::default());
        let mut ranges = differences(&now, &before);
        let piece = Extent::new(start, len as u64);
        let mut reported = reported.within(piece).peekable();
        if reported.peek().is_some() {
            let told = reported.map(|(part, ())| part);
            let found = ranges
                .iter()
                .map(|range| Extent::between(start + range.start as u64, start + range.end as u64));
            let mut all = Overlay::default();
            told.chain(found).for_each(|part| all.join(part, ()));
            let range = |(part, ()): (Extent, ())| {
                (part.offset - start) as usize..(part.end() - start) as usize
            };
            ranges = all.into_ranges().map(range).collect();
        }
        for range in joined(&ranges) {
            self.write(&now[range.clone()], start + range.start as u64)?;
        }
        for range in ranges {
            let offset = start + range.start as u64;
            body.add(offset, &now[range]);
            if body.len() >= PIECE {
                bodies.push(std::mem::take(&mut body).into_body());
            }
        }
        if body.len() > 0 {
            bodies.push(body.into_body());
        }
        Ok(Taken { bodies, memory })
    }

    /// Where a copy has memory, of these bytes, and the twin has none.
    fn new_memory(&self, copy: RawFd, start: u64, len: u64) -> io::Result<Vec<Extent>> {
        let (mut found, mut at, end) = (Vec::new(), start, start + len);
        while let Some(data) = os::next_data(copy, at)?.filter(|data| *data < end) {
            let hole = os::next_hole(copy, data)?.unwrap_or(end).min(end);
            let mut from = data;
            while from < hole {
                let twin = self.file.as_ref().map(AsRawFd::as_raw_fd);
                let gap = twin.map_or(Ok(None), |twin| os::next_hole(twin, from))?.unwrap_or(from);
                let next = twin.map_or(Ok(None), |twin| os::next_data(twin, gap))?.unwrap_or(hole);
                if gap < hole {
                    found.push(Extent::between(gap, next.min(hole)));
                }
                from = next;
            }
            at = hole;
        }
        Ok(found)
    }

    /// The bytes of a copy in an extent are in common from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn put(&mut self, copy: RawFd, extent: Extent) -> io::Result<()> {
        let mut at = extent.offset;
        while at < extent.end() {
            let len = PIECE.min(extent.end() - at);
            let mut bytes = vec![0; len as usize];
            read_all(copy, &mut bytes, at)?;
            self.write(&bytes, at)?;
            at += len;
        }
        Ok(())
    }

    /// These bytes are in common from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn has(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, offset)
    }

    /// The digest that tells whether the owner has other bytes than were in common.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn mark(&self, offset: u64, len: u64) -> io::Result<[u64; 2]> {
        let mut bytes = vec![0; len as usize];
        self.read(&mut bytes, offset)?;
        Ok(mark(&bytes))
    }

    /// Takes the bytes that the owner has into a copy, where that has no news of its own. The owner
    /// knows the bytes that are `kept` here, and has no older ones. Of the news, `own` bytes come
    /// from this node's files, and may be in the copy already.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn merge(
        &mut self,
        copy: RawFd,
        (offset, news): (u64, &[u8]),
        kept: &Overlay<()>,
        own: &[Extent],
    ) -> io::Result<()> {
        let (mut now, mut before) = (vec![0; news.len()], vec![0; news.len()]);
        read_all(copy, &mut now, offset)?;
        self.read(&mut before, offset)?;
        let place = |part: Extent| (part.offset - offset) as usize..(part.end() - offset) as usize;
        let all = Extent::new(offset, news.len() as u64);
        for (part, ()) in kept.within(all) {
            // As if the twin had them.
            before[place(part)].copy_from_slice(&now[place(part)]);
        }
        for at in own.iter().flat_map(|part| place(part.intersect(all))) {
            // Bytes that were written since are not in common.
            before[at] = if now[at] == news[at] { news[at] } else { before[at] };
        }
        let ranges = differences(news, &before);
        for range in joined(&ranges) {
            self.write(&news[range.clone()], offset + range.start as u64)?;
        }
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let own = (at..range.end).find(|at| now[*at] != before[*at]);
                let end = own.unwrap_or(range.end);
                write_all(copy, &news[at..end], offset + at as u64)?;
                let common = (end..range.end).find(|at| now[*at] == before[*at]);
                at = common.unwrap_or(range.end);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

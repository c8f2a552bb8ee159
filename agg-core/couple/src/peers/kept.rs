//! Bytes that programs of this node wrote to generations of other nodes, and that stay here. The
//! owner of a generation knows their extents; readers fetch them from this node.

use super::differences::parts;
use super::mapped::Mapped;
use super::{Action, Key, Message, PIECE, gaps};
use crate::areas::read_all;
use crate::protocol::bad;
use aggio_base::overlay::Overlay;
use aggio_base::{Extent, os};
use aggio_link::{Body, Peer};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A file with bytes that stay.
#[derive(Debug)]
struct File {
    fd: OwnedFd,
    inode: u64,
    /// The bytes are in a directory, and not in memory.
    has_moved: bool,
    /// The bytes to send, mapped once no process can write to the file any more.
    mapped: Option<Mapped>,
}

/// The kept bytes of one generation. A node that opened it several times has several files.
#[derive(Debug, Default)]
struct Kept {
    files: Vec<File>,
    parts: Overlay<usize>,
    /// Reports to the owner.
    reports: u64,
}

/// The kept bytes of all generations.
#[derive(Debug, Default)]
pub(crate) struct Keeps(BTreeMap<Key, Kept>);

impl Keeps {
    /// Keeps these bytes of a file. If there are none, the owner has nothing to release.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn keep(&mut self, key: Key, fd: OwnedFd, extents: &[Extent]) -> io::Result<()> {
        if extents.is_empty() {
            return Ok(());
        }
        let inode = os::fstat(fd.as_raw_fd())?.st_ino;
        let kept = self.0.entry(key).or_default();
        if kept.files.last().is_none_or(|last| last.inode != inode) {
            kept.files.push(File { fd, inode, has_moved: false, mapped: None });
        }
        let last = kept.files.len() - 1;
        extents.iter().for_each(|extent| kept.parts.join(*extent, last));
        Ok(())
    }

    /// The number of the next report to the owner of a generation.
    pub(crate) fn report(&mut self, key: Key) -> u64 {
        self.0.get_mut(&key).map_or(0, |kept| {
            kept.reports += 1;
            kept.reports
        })
    }

    /// The number of the last report to the owner of a generation.
    pub(crate) fn last_report(&self, key: Key) -> u64 {
        self.0.get(&key).map_or(0, |kept| kept.reports)
    }

    /// The bytes of `extent`, in order and in parts with their offsets. `changes` says that
    /// programs may still write to the file. `None` if not all of them are here.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn bytes(
        &mut self,
        key: Key,
        extent: Extent,
        changes: bool,
    ) -> io::Result<Option<Vec<(u64, Body)>>> {
        let Some(kept) = self.0.get_mut(&key) else { return Ok(None) };
        let parts: Vec<(Extent, usize)> = kept.parts.within(extent).collect();
        if parts.iter().map(|(part, _)| part.len).sum::<u64>() != extent.len {
            return Ok(None);
        }
        let mut found = Vec::new();
        for (part, file) in parts {
            let body = kept.files.get_mut(file).map(|file| file.body(part, changes));
            found.extend(body.transpose()?.map(|body| (part.offset, body)));
        }
        Ok(Some(found))
    }

    /// The bytes of a range of a file that programs of this node write: the owner has sent those
    /// that this node does not keep. Also the extents of those that it keeps.
    ///
    /// # Errors
    /// `InvalidData` if the body is malformed, or bytes are missing; the system's.
    pub(crate) fn complete(
        &mut self,
        key: Key,
        range: Extent,
        body: &[u8],
    ) -> io::Result<(Vec<u8>, Vec<Extent>)> {
        let sent = parts(body)?;
        let mut bytes = vec![0; usize::try_from(range.len.min(PIECE)).unwrap_or(0)];
        let mut put = |offset: u64, part: &[u8]| {
            let at = offset.checked_sub(range.offset).and_then(|at| usize::try_from(at).ok());
            let place = at.and_then(|at| bytes.get_mut(at..at.checked_add(part.len())?));
            place.map(|place| place.copy_from_slice(part)).ok_or_else(|| bad("it is elsewhere"))
        };
        for (offset, part) in &sent {
            put(*offset, part)?;
        }
        let there: Vec<Extent> =
            sent.iter().map(|(at, part)| Extent::new(*at, part.len() as u64)).collect();
        let own = gaps(range, &there);
        for gap in &own {
            let kept = self.bytes(key, *gap, true)?;
            for (offset, part) in kept.ok_or_else(|| bad("a part is nowhere"))? {
                if let Body::Bytes(part) = part {
                    put(offset, &part)?;
                }
            }
        }
        Ok((bytes, own))
    }

    /// The parts of an extent that are kept in the file with this inode.
    pub(crate) fn within_file(&self, key: Key, inode: u64, extent: Extent) -> Vec<Extent> {
        let Some(kept) = self.0.get(&key) else { return Vec::new() };
        let parts = kept.parts.within(extent);
        let is_it = |file: usize| kept.files.get(file).is_some_and(|file| file.inode == inode);
        parts.filter(|(_, file)| is_it(*file)).map(|(part, _)| part).collect()
    }

    /// The files in memory with bytes of a generation, by their inodes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn in_memory(&self, key: Key) -> io::Result<Vec<(u64, OwnedFd)>> {
        let files = self.0.get(&key).into_iter().flat_map(|kept| &kept.files);
        let files = files.filter(|file| !file.has_moved);
        files.map(|file| Ok((file.inode, file.fd.try_clone()?))).collect()
    }

    /// Bytes have moved to files outside of memory, by their inodes, or could not. Returns the
    /// answer to the owner.
    pub(crate) fn have_moved(
        &mut self,
        key: Key,
        result: Result<Vec<(u64, OwnedFd)>, i32>,
    ) -> Action {
        let moved = result.map(|files| {
            files.into_iter().for_each(|(inode, to)| self.has_moved(key, inode, to));
        });
        let error = moved.err().unwrap_or(0);
        Action::Say(key.0, Message::Spilled(key.1, error), Body::None)
    }

    /// The bytes of the file with this inode are in the file `to` by now, outside of memory.
    fn has_moved(&mut self, key: Key, inode: u64, to: OwnedFd) {
        let mut files = self.0.get_mut(&key).into_iter().flat_map(|kept| &mut kept.files);
        if let Some(file) = files.find(|file| file.inode == inode) {
            *file = File { fd: to, inode, has_moved: true, mapped: None };
        }
    }

    /// Bytes of memory of all files.
    pub(crate) fn memory(&self) -> u64 {
        let files = self.0.values().flat_map(|kept| &kept.files).filter(|file| !file.has_moved);
        let held = |file: &File| os::fstat(file.fd.as_raw_fd()).map_or(0, |facts| facts.st_blocks);
        files.map(|file| 512 * held(file).unsigned_abs()).sum()
    }

    /// The owner needs no bytes of a generation any more.
    pub(crate) fn free(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// The owner has ended.
    pub(crate) fn lose(&mut self, peer: Peer) {
        self.0.retain(|key, _| key.0 != peer);
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl File {
    fn body(&mut self, part: Extent, changes: bool) -> io::Result<Body> {
        if !changes {
            if self.mapped.is_none() {
                self.mapped = Some(Mapped::of(&self.fd, false)?);
            }
            let mapped = self.mapped.as_ref();
            if let Some(span) = mapped.and_then(|mapped| mapped.span(part.offset, part.len)) {
                return Ok(Body::Mapped(span));
            }
        }
        // A mapping ends the process where the file is cut.
        let mut bytes = vec![0; usize::try_from(part.len).unwrap_or(0)];
        read_all(self.fd.as_raw_fd(), &mut bytes, part.offset)?;
        Ok(Body::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    fn file(bytes: &[u8]) -> OwnedFd {
        let fd = os::memory_file(c"kept").unwrap();
        os::pwrite(fd, bytes, 0).unwrap();
        // SAFETY: the descriptor is new and belongs to nobody else.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    fn read(keeps: &mut Keeps, key: Key, extent: Extent, changes: bool) -> Option<Vec<u8>> {
        let parts = keeps.bytes(key, extent, changes).unwrap()?;
        let bytes = |body| match body {
            Body::Bytes(bytes) => bytes,
            Body::Mapped(span) => {
                let map = span.extent();
                vec![b'm'; map.len as usize]
            }
            Body::None => Vec::new(),
        };
        Some(parts.into_iter().flat_map(|(_, body)| bytes(body)).collect())
    }

    #[test]
    fn of_a_file_without_bytes_nothing_is_kept() {
        let mut keeps = Keeps::default();
        keeps.keep((Peer(1), 7), file(b""), &[]).unwrap();
        assert!(keeps.is_empty());
    }

    #[test]
    fn what_was_written_last_is_sent_and_nothing_that_was_not() {
        let (mut keeps, key) = (Keeps::default(), (Peer(1), 7));
        keeps.keep(key, file(b"0123456789"), &[Extent::new(2, 6)]).unwrap();
        keeps.keep(key, file(b"abcdefghij"), &[Extent::new(4, 2)]).unwrap();
        assert_eq!(read(&mut keeps, key, Extent::new(3, 4), true).unwrap(), b"3ef6");
        assert_eq!(read(&mut keeps, key, Extent::new(3, 4), false).unwrap(), b"mmmm");
        assert_eq!(read(&mut keeps, key, Extent::new(1, 4), true), None);
        assert_eq!(read(&mut keeps, (Peer(1), 8), Extent::new(3, 1), true), None);
        assert!(keeps.memory() > 0);
        for (inode, _) in keeps.in_memory(key).unwrap() {
            keeps.has_moved(key, inode, file(b"in a directory"));
        }
        assert_eq!((keeps.memory(), keeps.in_memory(key).unwrap().len()), (0, 0));
        assert_eq!(read(&mut keeps, key, Extent::new(3, 4), true).unwrap(), b"a di");
        keeps.lose(Peer(2));
        assert!(!keeps.is_empty());
        keeps.free(key);
        assert!(keeps.is_empty());
    }
}

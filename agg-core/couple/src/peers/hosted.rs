//! Memory of a generation that another node writes or reads.

use super::{PIECE, differences, map, span, twin};
use crate::protocol::bad;
use aggio_base::Extent;
use aggio_base::os::{self, Mapping};
use aggio_link::{Peer, Span};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// What the owner holds for other nodes.
#[derive(Debug, Default)]
pub(crate) struct Hosted {
    /// Who writes it.
    writers: BTreeMap<Peer, Writer>,
    /// Several nodes write it, or have.
    pub(crate) shared: bool,
    /// What is sent to readers.
    source: Option<Rc<Memory>>,
}

/// A node that writes.
#[derive(Debug)]
struct Writer {
    /// A description that keeps the file from being complete meanwhile.
    fd: OwnedFd,
    /// How often its programs opened the file for writing.
    opens: u64,
    /// The bytes have arrived since the last of these.
    stored: bool,
    /// To which sizes its copy is being cut: what it has sent before belongs to the file before.
    cuts: VecDeque<u64>,
}

impl Writer {
    /// Up to where its bytes count.
    fn limit(&self) -> u64 {
        self.cuts.iter().copied().min().unwrap_or(u64::MAX)
    }
}

/// Mapped bytes, and how many.
pub(super) struct Memory(Option<Arc<Mapping>>, u64);

impl Memory {
    /// All bytes of a file.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of(fd: &OwnedFd, writable: bool) -> io::Result<Self> {
        let size = os::fstat(fd.as_raw_fd())?.st_size.unsigned_abs();
        Ok(Self(map(fd.as_raw_fd(), size, writable)?, size))
    }

    /// These bytes, if the file has them.
    pub(super) fn span(&self, offset: u64, len: u64) -> Option<Span> {
        span(self.0.as_ref(), self.1, offset, len)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({})", self.1)
    }
}

impl Hosted {
    /// A process of the node `peer` may write, by a description of its own `fd`.
    pub(crate) fn lend(&mut self, peer: Peer, fd: OwnedFd) {
        let new = Writer { fd, opens: 0, stored: false, cuts: VecDeque::new() };
        let writer = self.writers.entry(peer).or_insert(new);
        (writer.stored, writer.opens) = (false, writer.opens + 1);
    }

    /// Who writes it.
    pub(crate) fn writers(&self) -> Vec<Peer> {
        self.writers.keys().copied().collect()
    }

    pub(crate) fn is_written_by(&self, peer: Peer) -> bool {
        self.writers.contains_key(&peer)
    }

    fn writer(&mut self, peer: Peer) -> io::Result<&mut Writer> {
        self.writers.get_mut(&peer).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// All bytes have come that were written after so many opens for writing.
    ///
    /// # Errors
    /// There were not so many.
    pub(crate) fn end(&mut self, peer: Peer, opens: u64) -> io::Result<()> {
        // A generation that is complete, or died, has no writers.
        let Some(writer) = self.writers.get_mut(&peer) else { return Ok(()) };
        if opens > writer.opens {
            return Err(bad("it counts opens that it was not given"));
        }
        writer.stored = opens == writer.opens;
        Ok(())
    }

    /// The programs of `peer` have changed the size of the file.
    ///
    /// # Errors
    /// It does not write the file; the system's.
    pub(crate) fn set_size(&mut self, peer: Peer, size: u64, cut: bool) -> io::Result<()> {
        // A mapping ends the process where the file is cut.
        self.source = None;
        let writer = self.writer(peer)?;
        let (fd, limit) = (writer.fd.as_raw_fd(), writer.limit());
        if cut { os::ftruncate(fd, size) } else { twin::grow(fd, size.min(limit)) }
    }

    /// Takes what `peer` has written where others write, too.
    ///
    /// # Errors
    /// `InvalidData` for what no agent says; it does not write the file; the system's.
    pub(crate) fn differ(&mut self, peer: Peer, body: &[u8]) -> io::Result<()> {
        let parts = differences::parts(body)?;
        let writer = self.writer(peer)?;
        twin::apply(writer.fd.as_raw_fd(), &parts, writer.limit())
    }

    /// The programs of `peer` have written something to `extent`: the file gets memory there, and
    /// keeps its bytes. If there is none to be had, readers hear of what was written later.
    ///
    /// # Errors
    /// It does not write the file; there is no such extent; the system's.
    pub(crate) fn allocate(&mut self, peer: Peer, extent: Extent) -> io::Result<()> {
        let writer = self.writer(peer)?;
        let end = extent.offset.checked_add(extent.len).filter(|end| i64::try_from(*end).is_ok());
        if extent.is_empty() || extent.len > PIECE || end.is_none() {
            return Err(bad("no file has such memory"));
        }
        let fd = writer.fd.as_raw_fd();
        let size = os::fstat(fd)?.st_size.unsigned_abs();
        let below = extent.end().min(size).min(writer.limit());
        if extent.offset >= below {
            return Ok(());
        }
        // Pages that `fallocate` has made count as holes. This is no store, so that no byte is
        // lost that is being written; it fails where the file is cut meanwhile.
        let pages = Mapping::new(fd, Extent::between(extent.offset, below), true);
        let _ = pages.and_then(|pages| pages.populate(true));
        Ok(())
    }

    /// Up to where the bytes of `peer` count; `None` if it does not write the file.
    pub(crate) fn limit(&self, peer: Peer) -> Option<u64> {
        self.writers.get(&peer).map(Writer::limit)
    }

    /// The copy of `peer` is being cut.
    pub(crate) fn cut(&mut self, peer: Peer, size: u64) {
        if let Some(writer) = self.writers.get_mut(&peer) {
            writer.cuts.push_back(size);
        }
    }

    /// It was.
    pub(crate) fn is_cut(&mut self, peer: Peer) {
        if let Some(writer) = self.writers.get_mut(&peer) {
            writer.cuts.pop_front();
        }
    }

    /// The bytes have moved: readers get them from where they are now.
    pub(crate) fn is_elsewhere(&mut self) {
        self.source = None;
    }

    /// Lets those go whose bytes have come, unless they have it open for writing; whether nobody
    /// of another node writes any more, and somebody has.
    pub(crate) fn release(&mut self, is_open: impl Fn(Peer) -> bool) -> bool {
        let had = !self.writers.is_empty();
        self.writers.retain(|peer, writer| !writer.stored || is_open(*peer));
        let is_last = had && self.writers.is_empty();
        if is_last {
            self.source = None;
        }
        is_last
    }

    /// A node that wrote is gone.
    pub(crate) fn lose(&mut self, peer: Peer) {
        self.writers.remove(&peer);
    }

    /// The bytes that a reader wants, of a file of which `fd` is a description.
    ///
    /// # Errors
    /// The file has no such bytes.
    pub(crate) fn bytes(&mut self, fd: &OwnedFd, offset: u64, len: u64) -> io::Result<Span> {
        if self.source.is_none() {
            self.source = Some(Rc::new(Memory::of(fd, false)?));
        }
        let found = self.source.as_ref().and_then(|source| source.span(offset, len));
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::areas::Areas;

    fn sent(hosted: &mut Hosted, areas: &Areas, len: u64) -> io::Result<u64> {
        let fd = areas.open(1, true, false, false)?;
        hosted.bytes(&fd, 0, len).map(|span| span.extent().len)
    }

    #[test]
    fn readers_get_the_size_that_the_file_has_after_it_was_written() {
        let mut areas = Areas::new().unwrap();
        areas.make(1, 0o600, None).unwrap();
        let (mut hosted, writer) = (Hosted::default(), Peer(1));
        hosted.lend(writer, areas.open(1, true, true, false).unwrap());
        assert!(sent(&mut hosted, &areas, 1).is_err(), "it is empty");
        for size in [5000, 9000] {
            hosted.set_size(writer, size, true).unwrap();
            assert_eq!(sent(&mut hosted, &areas, size).unwrap(), size);
            hosted.end(writer, 1).unwrap();
        }
        let grows = areas.open(1, true, true, false).unwrap();
        os::ftruncate(grows.as_raw_fd(), 12_000).unwrap();
        assert!(hosted.release(|_| false));
        assert_eq!(sent(&mut hosted, &areas, 12_000).unwrap(), 12_000);
    }
}

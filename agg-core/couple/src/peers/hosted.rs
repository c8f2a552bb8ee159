//! Memory of a generation that another node writes or reads.

use super::{map, span};
use aggio_base::Extent;
use aggio_base::os::{self, Mapping};
use aggio_link::{Peer, Span};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// What the owner holds for other nodes.
#[derive(Debug, Default)]
pub(crate) struct Hosted {
    /// Who writes it, and a description that keeps it from being complete meanwhile.
    writer: Option<(Peer, OwnedFd)>,
    /// The bytes have arrived since the last open for writing.
    pub(crate) stored: bool,
    /// What the writer's bytes go into.
    target: Option<Rc<Memory>>,
    /// Which time that is: a message of a later one may come before this one is over.
    time: u64,
    /// What is sent to readers.
    source: Option<Rc<Memory>>,
}

/// Mapped bytes, and how many.
struct Memory(Option<Rc<Mapping>>, u64);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({})", self.1)
    }
}

impl Hosted {
    /// A process of the node `peer` may write, by a description of its own `fd`.
    pub(crate) fn lend(&mut self, peer: Peer, fd: OwnedFd) {
        self.stored = false;
        self.writer = Some((peer, fd));
    }

    /// Who writes it.
    pub(crate) fn writer(&self) -> Option<Peer> {
        self.writer.as_ref().map(|(peer, _)| *peer)
    }

    /// `size` bytes will come from `peer`; there is nothing else in the file.
    ///
    /// # Errors
    /// It is not `peer` that writes; no memory.
    pub(crate) fn begin(&mut self, peer: Peer, size: u64, time: u64) -> io::Result<()> {
        let fd = self.file(peer)?;
        (self.time, self.source) = (time, None);
        os::ftruncate(fd, 0)?;
        os::ftruncate(fd, size)?;
        self.target = Some(Rc::new(Memory(map(fd, size, true)?, size)));
        Ok(())
    }

    fn file(&self, peer: Peer) -> io::Result<i32> {
        let writer = self.writer.as_ref().filter(|(writer, _)| *writer == peer);
        let fd = writer.map(|(_, fd)| fd.as_raw_fd());
        fd.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Stores bytes from `peer` that came before there was a place for them.
    ///
    /// # Errors
    /// They are none that `begin` has announced; no memory.
    pub(crate) fn store(
        &mut self,
        peer: Peer,
        time: u64,
        mut offset: u64,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        let fd = self.file(peer)?;
        let size = self.target.as_ref().filter(|_| self.time == time).map_or(0, |to| to.1);
        if Extent::new(offset, bytes.len() as u64).end() > size {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        while !bytes.is_empty() {
            let n = os::pwrite(fd, bytes, offset)?;
            (bytes, offset) = (&bytes[n..], offset + n as u64);
        }
        Ok(())
    }

    /// Where bytes from `peer` go.
    pub(crate) fn room(&self, peer: Peer, time: u64, offset: u64, len: u64) -> Option<Span> {
        let is_it = self.writer() == Some(peer) && self.time == time;
        let target = self.target.as_ref().filter(|_| is_it)?;
        span(target.0.as_ref(), target.1, offset, len)
    }

    /// All bytes have come.
    pub(crate) fn end(&mut self, peer: Peer) {
        if self.writer() == Some(peer) {
            self.target = None;
            self.stored = true;
        }
    }

    /// The bytes have moved: readers get them from where they are now.
    pub(crate) fn is_elsewhere(&mut self) {
        self.source = None;
    }

    /// Nobody of another node writes any more.
    pub(crate) fn release(&mut self) {
        (self.writer, self.target, self.source) = (None, None, None);
    }

    /// The bytes that a reader wants, of a file of which `fd` is a description.
    ///
    /// # Errors
    /// The file has no such bytes.
    pub(crate) fn bytes(&mut self, fd: &OwnedFd, offset: u64, len: u64) -> io::Result<Span> {
        if self.source.is_none() {
            let size = os::fstat(fd.as_raw_fd())?.st_size.unsigned_abs();
            self.source = Some(Rc::new(Memory(map(fd.as_raw_fd(), size, false)?, size)));
        }
        let source = self.source.as_ref();
        let found = source.and_then(|source| span(source.0.as_ref(), source.1, offset, len));
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
        for (time, size) in [(1, 5000), (2, 9000)] {
            hosted.begin(writer, size, time).unwrap();
            assert_eq!(sent(&mut hosted, &areas, size).unwrap(), size);
            hosted.end(writer);
        }
        let grows = areas.open(1, true, true, false).unwrap();
        os::ftruncate(grows.as_raw_fd(), 12_000).unwrap();
        hosted.release();
        assert_eq!(sent(&mut hosted, &areas, 12_000).unwrap(), 12_000);
    }
}

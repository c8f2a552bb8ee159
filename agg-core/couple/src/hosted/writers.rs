//! The nodes that write a generation of this one.

use crate::peers::{PIECE, differences, twin};
use crate::protocol::bad;
use aggio_base::Extent;
use aggio_base::os::{self, Mapping};
use aggio_link::Peer;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A node that writes.
#[derive(Debug)]
struct Writer {
    /// A description that keeps the file from being complete meanwhile.
    fd: OwnedFd,
    /// Opens of the file for writing by its programs with bytes that may not have arrived.
    opens: u64,
    /// The sizes to which its copy is being cut: bytes sent before belong to the file before.
    cuts: VecDeque<u64>,
}

impl Writer {
    /// Up to where its bytes count.
    fn limit(&self) -> u64 {
        self.cuts.iter().copied().min().unwrap_or(u64::MAX)
    }
}

/// All nodes that write one generation.
#[derive(Debug, Default)]
pub(crate) struct Writers(BTreeMap<Peer, Writer>);

impl Writers {
    /// A process of the node `peer` may write, by a description of its own `fd`.
    pub(crate) fn lend(&mut self, peer: Peer, fd: OwnedFd) {
        let new = Writer { fd, opens: 0, cuts: VecDeque::new() };
        self.0.entry(peer).or_insert(new).opens += 1;
    }

    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn has(&self, peer: Peer) -> bool {
        self.0.contains_key(&peer)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn writer(&mut self, peer: Peer) -> io::Result<&mut Writer> {
        self.0.get_mut(&peer).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// All bytes have come that were written by so many opens for writing.
    ///
    /// # Errors
    /// There are not so many.
    pub(crate) fn end(&mut self, peer: Peer, opens: u64) -> io::Result<()> {
        // A generation that is complete, or died, has no writers.
        let Some(writer) = self.0.get_mut(&peer) else { return Ok(()) };
        let left = writer.opens.checked_sub(opens);
        writer.opens = left.ok_or_else(|| bad("it counts opens that it was not given"))?;
        Ok(())
    }

    /// The programs of `peer` have changed the size of the file.
    ///
    /// # Errors
    /// It does not write the file; the system's.
    pub(crate) fn set_size(&mut self, peer: Peer, size: u64, cut: bool) -> io::Result<()> {
        let writer = self.writer(peer)?;
        let (fd, limit) = (writer.fd.as_raw_fd(), writer.limit());
        if cut { os::ftruncate(fd, size) } else { twin::grow(fd, size.min(limit)) }
    }

    /// Takes written bytes of `peer` where others write, too.
    ///
    /// # Errors
    /// `InvalidData` for a malformed body; it does not write the file; the system's.
    pub(crate) fn differ(&mut self, peer: Peer, body: &[u8]) -> io::Result<()> {
        let parts = differences::parts(body)?;
        let writer = self.writer(peer)?;
        twin::apply(writer.fd.as_raw_fd(), &parts, writer.limit())
    }

    /// The programs of `peer` have written something to `extent`: the file gets memory there, and
    /// keeps its bytes. Without memory readers find these bytes later.
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
        self.0.get(&peer).map(Writer::limit)
    }

    /// The copy of `peer` is being cut.
    pub(crate) fn cut(&mut self, peer: Peer, size: u64) {
        if let Some(writer) = self.0.get_mut(&peer) {
            writer.cuts.push_back(size);
        }
    }

    /// It was.
    pub(crate) fn is_cut(&mut self, peer: Peer) {
        if let Some(writer) = self.0.get_mut(&peer) {
            writer.cuts.pop_front();
        }
    }

    /// Lets nodes go after their bytes, unless they have it open for writing. Returns whether the
    /// last one has gone.
    pub(crate) fn release(&mut self, is_open: impl Fn(Peer) -> bool) -> bool {
        let had = !self.0.is_empty();
        self.0.retain(|peer, writer| writer.opens > 0 || is_open(*peer));
        had && self.0.is_empty()
    }

    /// A node that wrote is gone.
    pub(crate) fn lose(&mut self, peer: Peer) {
        self.0.remove(&peer);
    }
}

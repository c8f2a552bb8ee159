//! One generation of this node that other nodes write, read, or have bytes of.

use super::acks::Acks;
use super::located::Located;
use super::moving::Moving;
use super::pull::{Pull, Pulled};
use super::writers::Writers;
use crate::peers::differences;
use crate::peers::mapped::Mapped;
use crate::peers::{Holder, Message};
use crate::registry::{Area, Series};
use aggio_base::Extent;
use aggio_link::{Peer, Span};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

/// All that this node holds of one generation for other nodes. `T` is an action that waits.
#[derive(Debug)]
pub(crate) struct Hosted<T> {
    area: Area,
    /// The nodes that write it.
    pub(crate) writers: Writers,
    /// Several nodes write it, or have.
    pub(crate) shared: bool,
    /// The bytes that are sent to readers.
    source: Option<Mapped>,
    /// The bytes that other nodes have.
    pub(crate) located: Located,
    /// Bytes that are being fetched from them.
    pub(crate) pull: Option<Pull<T>>,
    pub(super) moving: Option<Moving>,
    /// Acknowledgements that are awaited, or have just come.
    pub(super) acks: Option<Acks<T>>,
    /// It was given up; only a move, or actions that wait for acknowledgements, are left.
    pub(super) is_freed: bool,
}

impl<T> Hosted<T> {
    pub(super) fn new(area: Area) -> Self {
        let (writers, located) = (Writers::default(), Located::default());
        let (source, pull, moving, acks) = (None, None, None, None);
        let (shared, is_freed) = (false, false);
        Self { area, writers, shared, source, located, pull, moving, acks, is_freed }
    }

    /// Handles a message of the node `peer` about bytes that its programs have written.
    ///
    /// # Errors
    /// `InvalidData` if the message is malformed; `EBADF` if the node does not write the
    /// generation; the system's.
    pub(crate) fn store(&mut self, peer: Peer, message: &Message, body: &[u8]) -> io::Result<()> {
        match *message {
            Message::Size(_, size, cut) => {
                if cut {
                    self.cut(size);
                }
                // A mapping ends the process where the file is cut.
                self.source = None;
                self.writers.set_size(peer, size, cut)
            }
            Message::Differ(_) => {
                if !self.located.is_empty() {
                    for (offset, bytes) in differences::parts(body)? {
                        self.located.is_here(Extent::new(offset, bytes.len() as u64));
                    }
                }
                self.writers.differ(peer, body)
            }
            Message::Memory(_, offset, len) => {
                self.writers.allocate(peer, Extent::new(offset, len))
            }
            _ => Err(io::Error::other("it is of no known kind")),
        }
    }

    /// All bytes have come that were written by so many opens for writing, and the node has
    /// announced them under this series.
    ///
    /// # Errors
    /// There are not so many opens.
    pub(crate) fn end(&mut self, peer: Peer, opens: u64, series: Series) -> io::Result<()> {
        self.writers.end(peer, opens)?;
        self.located.announced(Holder { peer, area: self.area }, series);
        Ok(())
    }

    /// Lets nodes go after their bytes, unless they have it open for writing. Returns whether
    /// the last one has gone.
    pub(crate) fn release(&mut self, is_open: impl Fn(Peer) -> bool) -> bool {
        let is_last = self.writers.release(is_open);
        if is_last {
            self.source = None;
        }
        is_last
    }

    /// The bytes that a reader wants, by a description `fd` of the file.
    ///
    /// # Errors
    /// The file has no such bytes.
    pub(crate) fn bytes(&mut self, fd: &OwnedFd, place: Extent) -> io::Result<Span> {
        if self.source.is_none() {
            self.source = Some(Mapped::of(fd, false)?);
        }
        let found = self.source.as_ref().and_then(|map| map.span(place.offset, place.len));
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// The file was cut, or made longer, to so many bytes.
    pub(crate) fn cut(&mut self, size: u64) {
        self.located.is_here(Extent::between(size, u64::MAX));
    }

    /// The bytes of `extent` that the node of `peer` has of this generation, and those that other
    /// nodes have, or that one of an earlier generation.
    pub(crate) fn split(&self, extent: Extent, peer: Peer) -> [Vec<Extent>; 2] {
        self.located.split(extent, Holder { peer, area: self.area })
    }

    /// Lets bytes of `extents` come that other nodes have; `after` follows. Gives it back if there
    /// are none.
    pub(crate) fn pull(&mut self, extents: &[Extent], after: T) -> Result<(), T> {
        let found = extents.iter().flat_map(|extent| self.located.within(*extent));
        let found: Vec<(Extent, Holder)> = found.collect();
        if found.is_empty() {
            return Err(after);
        }
        let pull = self.pull.get_or_insert_default();
        found.into_iter().for_each(|(part, holder)| pull.want(part, holder));
        pull.hold(after);
        Ok(())
    }

    /// A requested part has arrived in the memory of the generation.
    pub(crate) fn pulled(&mut self, tag: u64) {
        if let Some((part, holder)) = self.pull.as_mut().and_then(|pull| pull.came(tag)) {
            self.located.came(part, holder);
        }
    }

    /// Ends the fetching if it is over.
    pub(crate) fn end_pull(&mut self) -> Option<Pulled<T>> {
        self.pull.take_if(|pull| pull.is_over()).map(Pull::end)
    }

    /// Moves to a directory, as do the bytes that these nodes have.
    pub(crate) fn begin_move(&mut self, left: BTreeSet<Holder>) {
        self.moving = Some(Moving::begin(left));
    }

    /// Ends the move if all nodes have answered.
    pub(super) fn end_move(&mut self) -> Option<io::Result<OwnedFd>> {
        self.moving.take_if(|moving| moving.is_over())?.result()
    }

    /// The bytes have moved: readers get them from where they are now.
    pub(crate) fn has_moved(&mut self) {
        self.source = None;
    }

    /// A node will acknowledge a message.
    pub(crate) fn expect(&mut self, peer: Peer) {
        self.acks.get_or_insert_default().expect(peer);
    }

    /// A node has acknowledged a message. Returns false if nothing is awaited.
    pub(super) fn hear(&mut self, peer: Peer) -> bool {
        self.acks.as_mut().map(|acks| acks.hear(peer)).is_some()
    }

    /// Lets an action wait for acknowledgements; gives it back if none are awaited.
    pub(super) fn hold(&mut self, after: T) -> Result<(), T> {
        match &mut self.acks {
            Some(acks) => {
                acks.hold(after);
                Ok(())
            }
            None => Err(after),
        }
    }

    /// The actions that have waited for acknowledgements, if all have come.
    pub(super) fn held(&mut self) -> Option<Vec<T>> {
        self.acks.take_if(|acks| acks.are_over()).map(Acks::into_actions)
    }

    /// The node of `peer` has ended: it acknowledges, moves and writes nothing any more.
    pub(super) fn lose(&mut self, peer: Peer) {
        self.writers.lose(peer);
        self.acks.iter_mut().for_each(|acks| acks.lose(peer));
        self.moving.iter_mut().for_each(|moving| moving.lose(peer));
    }

    /// It is given up. Returns the holders of its bytes, and its fetching.
    pub(super) fn free(&mut self) -> (Vec<Holder>, Option<Pull<T>>) {
        (self.writers, self.source, self.is_freed) = (Writers::default(), None, true);
        self.acks.iter_mut().for_each(Acks::end);
        (self.located.free(), self.pull.take())
    }

    /// Whether it was given up, and nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.is_freed && self.moving.is_none() && self.acks.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::areas::Areas;
    use aggio_base::os;
    use std::os::fd::AsRawFd;

    const NODE: Peer = Peer(1);

    fn sent(hosted: &mut Hosted<()>, areas: &Areas, len: u64) -> io::Result<u64> {
        let fd = areas.open(1, true, false, false)?;
        hosted.bytes(&fd, Extent::new(0, len)).map(|span| span.extent().len)
    }

    #[test]
    fn readers_get_the_size_that_the_file_has_after_it_was_written() {
        let mut areas = Areas::new().unwrap();
        areas.make(1, 0o600, None).unwrap();
        let mut hosted = Hosted::new(1);
        hosted.writers.lend(NODE, areas.open(1, true, true, false).unwrap());
        assert!(sent(&mut hosted, &areas, 1).is_err(), "it is empty");
        for (opens, size) in [(1, 5000), (0, 9000)] {
            hosted.store(NODE, &Message::Size(1, size, true), &[]).unwrap();
            assert_eq!(sent(&mut hosted, &areas, size).unwrap(), size);
            hosted.end(NODE, opens, Vec::new()).unwrap();
        }
        let grows = areas.open(1, true, true, false).unwrap();
        os::ftruncate(grows.as_raw_fd(), 12_000).unwrap();
        assert!(hosted.release(|_| false));
        assert_eq!(sent(&mut hosted, &areas, 12_000).unwrap(), 12_000);
    }

    #[test]
    fn an_action_waits_for_the_bytes_of_other_nodes_and_these_are_here_then() {
        let mut hosted = Hosted::new(7);
        let (range, holder) = (Extent::new(0, 10), Holder { peer: NODE, area: 7 });
        assert_eq!(hosted.pull(&[range], "action"), Err("action"), "all bytes are here");
        hosted.located.note(holder, 1, &[range]);
        assert_eq!(hosted.pull(&[Extent::new(5, 20)], "action"), Ok(()));
        let (part, _) = hosted.pull.as_mut().unwrap().next().unwrap();
        hosted.pull.as_mut().unwrap().sent(3, part, holder);
        assert!(hosted.end_pull().is_none());
        hosted.pulled(3);
        assert_eq!(hosted.located.within(range), [(Extent::new(0, 5), holder)]);
        assert_eq!(hosted.end_pull().unwrap().after, ["action"]);
        assert!(hosted.pull.is_none());
    }

    #[test]
    fn a_freed_generation_answers_what_waits_for_it_and_then_nothing_is_left() {
        let mut hosted = Hosted::new(7);
        let holder = Holder { peer: NODE, area: 7 };
        hosted.located.note(holder, 1, &[Extent::new(0, 10)]);
        hosted.pull(&[Extent::new(0, 10)], "fetched").unwrap();
        assert_eq!(hosted.hold("acknowledged"), Err("acknowledged"));
        hosted.expect(NODE);
        hosted.hold("acknowledged").unwrap();
        hosted.begin_move([holder].into());
        let (holders, pull) = hosted.free();
        assert_eq!((holders, pull.unwrap().end().after), (vec![holder], vec!["fetched"]));
        assert_eq!(hosted.held(), Some(vec!["acknowledged"]));
        assert!(!hosted.is_over(), "it moves");
        hosted.lose(NODE);
        hosted.moving.as_mut().unwrap().own(Err(io::ErrorKind::NotFound.into()));
        assert!(hosted.end_move().is_some() && hosted.is_over());
    }
}

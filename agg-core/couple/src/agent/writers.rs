//! Messages of other nodes about generations of this one, which their programs write or read.

use super::deferred::After;
use super::owner::Owner;
use crate::areas::write_all;
use crate::hosted::ALL;
use crate::peers::{Action, Holder, Instance, Message};
use crate::registry::Area;
use aggio_base::Extent;
use aggio_link::Peer;
use std::io;
use std::os::fd::AsRawFd;

impl Owner {
    /// Handles a message of a node about a generation of this one; `node` names its agent. Gives
    /// other messages back.
    ///
    /// # Errors
    /// The message is malformed; the system's.
    pub(super) fn hear(
        &mut self,
        peer: Peer,
        node: Option<&Instance>,
        message: Message,
        body: &[u8],
    ) -> io::Result<Option<Message>> {
        match message {
            Message::Locate(area) => {
                let (message, body) = self.life.own.where_message(area, body)?;
                self.life.actions.push(Action::Say(peer, message, body));
            }
            Message::Stored(area, opens, series) => {
                // A generation that died meanwhile needs no bytes.
                let hosted = self.life.own.hosted.get_mut(area);
                hosted.map_or(Ok(()), |hosted| hosted.end(peer, opens, series))?;
                self.life.release(area);
                self.settle();
            }
            Message::Keeps(area, report) => {
                if !self.life.own.note_kept((peer, node), (area, report), body)? {
                    self.life.say(peer, Message::Released(area));
                } else if self.life.own.must_be_here(area) {
                    _ = self.life.pulls_first(area, &[ALL], After::Look(area));
                }
            }
            Message::Spilled(area, error) => {
                self.life.has_moved(Holder { peer, area }, error);
                self.settle();
            }
            message => return self.hear_writer(peer, message, body),
        }
        Ok(None)
    }

    /// The same for memory that its programs write, and others as well.
    pub(super) fn hear_writer(
        &mut self,
        peer: Peer,
        message: Message,
        body: &[u8],
    ) -> io::Result<Option<Message>> {
        match message {
            Message::Size(area, ..) | Message::Differ(area) | Message::Memory(area, ..) => {
                // A generation that died meanwhile needs no bytes.
                let Some(hosted) = self.life.own.hosted.get_mut(area) else { return Ok(None) };
                let Err(error) = hosted.store(peer, &message, body) else { return Ok(None) };
                if error.raw_os_error().is_none_or(|number| number == libc::EBADF) {
                    return Err(error);
                }
                self.cannot_keep(area, &error);
            }
            Message::Look(area) => {
                let size = self.life.own.size_message(area);
                self.life.say(peer, size);
            }
            Message::Renew(area, offset, len, mark) => {
                let hosted = self.life.own.hosted.get(area);
                let parts = hosted.map(|one| one.split(Extent::new(offset, len), peer));
                let [own, others] = parts.unwrap_or_default();
                if self.life.pulls_first(area, &others, After::Hear(peer, message)).is_err() {
                    let own = (mark, &own[..]);
                    let (message, body) = self.life.own.bytes_message(area, (offset, len), own)?;
                    self.life.actions.push(Action::Say(peer, message, body));
                }
            }
            Message::Acknowledged(area, cut) => {
                let hosted = self.life.own.hosted.get_mut(area).filter(|_| cut);
                hosted.into_iter().for_each(|hosted| hosted.writers.is_cut(peer));
                self.acknowledged(area, peer);
            }
            message => return Ok(Some(message)),
        }
        Ok(None)
    }

    /// A node has acknowledged a message about a generation, or never will.
    pub(super) fn acknowledged(&mut self, area: Area, peer: Peer) {
        if self.life.own.hosted.hear(area, peer) {
            self.settle();
        }
    }

    /// Requested bytes have come, by their tag, from this offset on; whether all of the tag are
    /// here.
    pub(super) fn has_come(
        &mut self,
        area: Area,
        (tag, offset): (u64, u64),
        bytes: &[u8],
        is_all: bool,
    ) {
        let file = self.life.own.memory.areas.open(area, true, true, false);
        match file.and_then(|file| write_all(file.as_raw_fd(), bytes, offset)) {
            Err(error) => {
                self.life.actions.push(Action::Forget(vec![tag]));
                self.cannot_keep(area, &error);
                self.life.fail_pull(area, error.to_string());
            }
            Ok(()) if is_all => {
                let hosted = self.life.own.hosted.get_mut(area);
                hosted.into_iter().for_each(|hosted| hosted.pulled(tag));
                self.life.actions.push(Action::Pull(area));
            }
            Ok(()) => {}
        }
    }

    /// Bytes that another node has sent of a generation cannot be stored.
    fn cannot_keep(&mut self, area: Area, error: &io::Error) {
        if self.life.own.spoil(area, error) {
            self.settle();
        }
    }
}

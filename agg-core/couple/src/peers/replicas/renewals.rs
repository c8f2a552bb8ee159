//! Replicas that get bytes of the owner and send written ones, while the file is written.

use super::{Replica, Replicas};
use crate::areas::Areas;
use crate::peers::Key;
use crate::peers::shared::{Asked, Shared, Step};
use crate::peers::twin::grow;
use crate::protocol::Request;
use aggio_base::{Extent, os};
use std::io;
use std::os::fd::AsRawFd;

impl Replicas {
    /// Programs of other nodes write it from now on, and the owner has no bytes of it yet. False if
    /// nothing was written here that the owner does not have or get.
    pub(crate) fn share(&mut self, key: Key) -> bool {
        let Some(copy) = self.all.get_mut(&key) else { return false };
        copy.shares = false;
        copy.shared.get_or_insert_default();
        if copy.writing.dirty {
            return true;
        }
        // Its bytes are soon not all: it is of use only to those that have it open.
        copy.gone = true;
        self.give_up_if_over(key);
        false
    }

    /// The owner has all written bytes: the copy is of use only while it is open. Its readers get
    /// bytes that other nodes write meanwhile.
    pub(crate) fn retire(&mut self, key: Key) {
        let Some(copy) = self.all.get_mut(&key) else { return };
        copy.gone |= copy.opens == 0;
        self.give_up_if_over(key);
    }

    /// Gives up a copy that nobody needs any more. One that still has requests of programs for its
    /// owner is needed until these were sent.
    pub(crate) fn give_up_if_over(&mut self, key: Key) {
        let is_idle = |copy: &Replica| copy.shared.as_ref().is_none_or(Shared::is_idle);
        let is_over = |copy: &Replica| copy.is_left() && is_idle(copy);
        if self.all.get(&key).is_some_and(is_over) {
            self.give_up(key);
        }
    }

    /// The copies that several nodes write.
    pub(crate) fn shared(&self) -> Vec<Key> {
        let is_it = |copy: &Replica| copy.shared.as_ref().is_some_and(|shared| !shared.is_idle());
        self.all.iter().filter(|(_, copy)| is_it(copy)).map(|(key, _)| *key).collect()
    }
}

impl Replica {
    /// Lets a copy have so many bytes, if need be as soon as all have come: until then they are
    /// mapped.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn cut(&mut self, size: u64, areas: &mut Areas) -> io::Result<()> {
        if self.is_left() {
            // Other nodes may get its bytes from a mapping, which must not reach behind the file.
            return Ok(());
        }
        self.writing.written.take(Extent::between(size, u64::MAX));
        if let Some(shared) = &mut self.shared {
            shared.cut(size)?;
        }
        self.cut = (!self.is_whole()).then_some(size);
        if self.cut.is_some() { Ok(()) } else { areas.resize(self.local, size) }
    }

    /// As [`Shared::begin_empty`], for a copy that has the size of the owner's file by that.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin_empty(&mut self, size: u64, areas: &Areas) -> io::Result<bool> {
        let may_be = self.writing.granted <= 1;
        let Some(shared) = self.shared.as_mut().filter(|_| may_be) else { return Ok(false) };
        if !shared.begin_empty(size)? {
            return Ok(false);
        }
        grow(areas.open(self.local, true, true, false)?.as_raw_fd(), size)?;
        Ok(true)
    }

    /// The next step with a replica that several nodes write.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn step(&mut self, key: Key, has_room: bool, areas: &Areas) -> io::Result<Step> {
        let is_whole = self.is_whole();
        let Some(shared) = self.shared.as_mut().filter(|_| is_whole) else {
            return Ok(Step::Nothing);
        };
        let file = areas.open(self.local, true, false, false)?;
        let step = shared.step(key, file.as_raw_fd(), has_room)?;
        if let Step::Ask(Asked { request: Request::Resize(_, size), .. }) = &step {
            // Bytes that came since a program cut the file may be behind its end.
            let file = areas.open(self.local, true, true, false)?;
            os::ftruncate(file.as_raw_fd(), *size)?;
        }
        // A program may have begun to write to it since its readers asked for the bytes.
        if matches!(step, Step::Renewed(_)) && (shared.grows_now() || self.writing.is_over()) {
            let file = areas.open(self.local, true, true, false)?;
            grow(file.as_raw_fd(), shared.size())?;
        }
        Ok(step)
    }

    /// The owner's file has so many bytes.
    ///
    /// # Errors
    /// Nobody has asked; the system's.
    pub(crate) fn looked(&mut self, size: u64, areas: &mut Areas) -> io::Result<()> {
        let (only_reads, local) = (self.writing.is_over(), self.local);
        let Some(shared) = &mut self.shared else { return Ok(()) };
        if only_reads && shared.size() > size {
            // Its writer has cut the file: only nodes that write it were told.
            shared.cut(size)?;
            areas.resize(local, size)?;
        }
        if !shared.looked(size)? {
            return Ok(());
        }
        if only_reads {
            // A reader that looks at the size is not to find it before the bytes.
            shared.grow_later();
            return Ok(());
        }
        grow(areas.open(local, true, true, false)?.as_raw_fd(), size)
    }

    /// The owner has these bytes, or those that both had; `own` are those that this node keeps.
    ///
    /// # Errors
    /// Nobody has asked; the system's.
    pub(crate) fn put(
        &mut self,
        news: (u64, Option<&[u8]>),
        own: &[Extent],
        areas: &Areas,
    ) -> io::Result<()> {
        let Some(shared) = self.shared.as_mut() else { return Ok(()) };
        shared.renewed(news, own, || areas.open(self.local, true, true, false))
    }
}

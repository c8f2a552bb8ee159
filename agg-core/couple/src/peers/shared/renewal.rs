//! Fetches pieces of the owner that differ from those before.

use super::{Shared, Step, WINDOW, Wants, Work};
use crate::peers::twin::PIECE;
use crate::peers::{Key, Message};
use crate::protocol::bad;
use crate::records::News;
use aggio_base::Extent;
use aggio_link::Body;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) news: News,
    /// Only these pieces, if any are named.
    pub(super) only: Option<BTreeSet<u64>>,
    /// How many bytes the owner has, when it has said so.
    size: Option<u64>,
    next: u64,
    /// Pieces that were asked for and have not come: offsets and lengths.
    open: BTreeMap<u64, u64>,
    pub(super) wants: Vec<Wants>,
}

impl Shared {
    /// Asks the owner how long its file is.
    pub(super) fn begin_renewal(
        &mut self,
        key: Key,
        news: News,
        only: Option<BTreeSet<u64>>,
        wants: Vec<Wants>,
    ) -> Step {
        let (size, next, open) = (None, 0, BTreeMap::new());
        self.now = Some(Work::Renew(Renewal { news, only, size, next, open, wants }));
        Step::Say(vec![(Message::Look(key.1), Body::None)])
    }

    /// The copy has the owner's bytes of the pieces of a renewal.
    pub(super) fn has_fetched(&mut self, renewal: &Renewal) {
        match (&renewal.only, &mut self.fetched) {
            (Some(pieces), Some(fetched)) => fetched.extend(pieces),
            (None, fetched) if renewal.news == News::ALL => *fetched = None,
            _ => {}
        }
    }

    /// The next pieces to ask for.
    pub(super) fn ask(&self, key: Key, renewal: &mut Renewal) -> io::Result<Vec<(Message, Body)>> {
        let (mut found, size) = (Vec::new(), renewal.size.unwrap_or(0));
        while renewal.next < size && renewal.open.len() < WINDOW {
            let (offset, len) = (renewal.next, PIECE.min(size - renewal.next));
            renewal.next += len;
            let is_meant = |only: &BTreeSet<u64>| only.contains(&(offset / PIECE));
            if !renewal.news.may_be(offset, len) || !renewal.only.as_ref().is_none_or(is_meant) {
                continue;
            }
            let mark = self.twin.mark(offset, len)?;
            found.push((Message::Renew(key.1, offset, len, mark), Body::None));
            renewal.open.insert(offset, len);
        }
        Ok(found)
    }

    /// The owner's file has so many bytes; whether these are more than were known.
    ///
    /// # Errors
    /// Nobody has asked; the system's.
    pub(crate) fn looked(&mut self, size: u64) -> io::Result<bool> {
        match &mut self.now {
            Some(Work::Renew(renewal)) if renewal.size.is_none() => renewal.size = Some(size),
            _ => return Err(bad("a size that nobody has asked for")),
        }
        if i64::try_from(size).is_err() {
            return Err(bad("no file is so long"));
        }
        let grows = size > self.twin.size();
        if grows {
            self.twin.set_size(size)?;
        }
        Ok(grows)
    }

    /// The copy gets the size of the owner's file behind the bytes of this renewal.
    pub(crate) fn grow_later(&mut self) {
        self.grows = true;
    }

    /// Whether a copy whose bytes have come is to get the size of the owner's file now.
    pub(crate) fn grows_now(&mut self) -> bool {
        std::mem::take(&mut self.grows)
    }

    /// The owner has these bytes, or those that were in common; `own` are those that stay here.
    ///
    /// # Errors
    /// Nobody has asked; the system's.
    pub(crate) fn renewed(
        &mut self,
        (offset, news): (u64, Option<&[u8]>),
        own: &[Extent],
        open: impl Fn() -> io::Result<OwnedFd>,
    ) -> io::Result<()> {
        let Some(Work::Renew(renewal)) = &mut self.now else {
            return Err(bad("bytes that nobody has asked for"));
        };
        let len = renewal.open.remove(&offset);
        let is_right = len.is_some_and(|len| news.is_none_or(|news| news.len() as u64 == len));
        if !is_right {
            return Err(bad("bytes that nobody has asked for"));
        }
        let Some(news) = news else { return Ok(()) };
        self.twin.merge(open()?.as_raw_fd(), (offset, news), &self.kept, own)
    }
}

impl Renewal {
    pub(super) fn is_over(&self) -> bool {
        self.size.is_some_and(|size| self.next >= size) && self.open.is_empty()
    }
}

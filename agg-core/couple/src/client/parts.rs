//! Reports of written bytes, and bytes that other nodes send.

use super::{Client, failure};
use crate::peers::{AWAY, UNIT};
use crate::protocol::{Reply, Request};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ranges that are put together before it is known which of their units are missing.
const TOGETHER: usize = 4096;

/// Whether an open file belongs to another node, so that parts of it may be missing here.
pub fn is_away(handle: u64) -> bool {
    handle >= AWAY
}

/// Ranges in one request.
const EXTENTS: usize = 1000;

impl Client {
    /// Says that the process has written to the file of `handle`, before it closes the
    /// descriptor. A generation that began as a copy of the one before, and has the same bytes, is
    /// a new one by that. If the file [belongs to another node](super::is_away), `extents` has all
    /// that was written since the last call.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn wrote(&self, handle: u64, extents: &[Extent]) -> io::Result<()> {
        let mut all = extents.chunks(EXTENTS);
        let first = all.next().unwrap_or_default();
        std::iter::once(first)
            .chain(all)
            .try_for_each(|extents| self.order(&Request::Wrote(handle, extents.to_vec())))
    }

    /// Whether files may belong to other nodes, or have bytes there.
    pub fn is_between_nodes(&self) -> bool {
        self.connections.is_between_nodes()
    }

    /// Waits until bytes of a file are there that was opened with
    /// [`Open::parts`](super::Open::parts), and that another node sends. So many behind the last
    /// are to come as well; nobody waits for these. Whether all bytes of the file are there, now
    /// and for ever.
    ///
    /// # Errors
    /// `EIO` if that node has ended; the agent cannot be reached.
    pub fn fetch(&self, handle: u64, extents: &[Extent], ahead: u64) -> io::Result<bool> {
        for extents in extents.chunks(EXTENTS) {
            let request = Request::Fetch(handle, extents.to_vec(), ahead);
            match self.connections.call(&request)?.0 {
                Reply::Done => {}
                Reply::Whole => return Ok(true),
                other => return Err(failure(other, &request)),
            }
        }
        Ok(false)
    }
}

/// The bytes of an open file that are known to be there.
#[derive(Debug, Default)]
pub struct Parts {
    are_all_there: AtomicBool,
    known: Mutex<Overlay<()>>,
}

impl Parts {
    /// Of the files that `client` has opened with [`Open::parts`](super::Open::parts).
    pub fn of(client: &Client, handle: u64) -> Self {
        let are_all_there = !is_away(handle) && !client.is_between_nodes();
        Self { are_all_there: AtomicBool::new(are_all_there), ..Self::default() }
    }

    /// Other nodes may have newer bytes by now of the open files of `client`.
    pub fn forget(&self, client: &Client, handle: u64) {
        if is_away(handle) || client.is_between_nodes() {
            self.are_all_there.store(false, Release);
            *self.known() = Overlay::default();
        }
    }

    fn known(&self) -> MutexGuard<'_, Overlay<()>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all bytes of `extents`, which are in order, are there. How many were not known
    /// to be.
    ///
    /// # Errors
    /// As [`Client::fetch`].
    pub fn wait(
        &self,
        client: &Client,
        handle: u64,
        extents: impl IntoIterator<Item = Extent>,
    ) -> io::Result<u64> {
        let mut waited = 0;
        let mut extents = extents.into_iter().filter(|extent| extent.len > 0).peekable();
        while !self.are_all_there.load(Acquire) && extents.peek().is_some() {
            let missing = missing(&self.known(), extents.by_ref().take(TOGETHER));
            if missing.is_empty() {
                continue;
            }
            waited += missing.iter().map(|extent| extent.len).sum::<u64>();
            if client.fetch(handle, &missing, 0)? {
                self.are_all_there.store(true, Release);
            }
            let mut known = self.known();
            missing.into_iter().for_each(|extent| known.join(extent, ()));
        }
        Ok(waited)
    }
}

/// The units with bytes of `extents` that are not known to be there, as few ranges in order.
fn missing(known: &Overlay<()>, extents: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut wanted = Overlay::default();
    for extent in extents {
        let end = extent.end().checked_next_multiple_of(UNIT).unwrap_or(u64::MAX);
        wanted.join(Extent::between(extent.offset / UNIT * UNIT, end), ());
    }
    let all: Vec<Extent> = wanted.iter().map(|(extent, ())| extent).collect();
    for extent in all {
        known.within(extent).for_each(|(there, ())| wanted.take(there));
    }
    wanted.into_ranges().map(|(extent, ())| extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_asked_for_once_and_as_few_ranges() {
        let extents = [Extent::new(5, 1), Extent::new(UNIT - 1, 2), Extent::new(7 * UNIT, UNIT)];
        let mut known = Overlay::default();
        let all = missing(&known, extents.into_iter());
        assert_eq!(all, [Extent::new(0, 2 * UNIT), Extent::new(7 * UNIT, UNIT)]);
        known.join(Extent::new(UNIT, 6 * UNIT), ());
        let rest = missing(&known, std::iter::once(Extent::new(3, 7 * UNIT)));
        assert_eq!(rest, [Extent::new(0, UNIT), Extent::new(7 * UNIT, UNIT)]);
        assert_eq!(missing(&known, std::iter::once(Extent::new(2 * UNIT, 9))), []);
        let end = missing(&known, std::iter::once(Extent::new(8 * UNIT, u64::MAX)));
        assert_eq!(end, [Extent::between(8 * UNIT, u64::MAX)]);
    }
}

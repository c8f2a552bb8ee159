//! What a reader knows of the bytes of a file that another node sends piece by piece.

use super::{Client, EXTENTS, failure};
use crate::peers::{AWAY, UNIT};
use crate::protocol::{Reply, Request};
use aggio_base::Extent;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, PoisonError};

/// Ranges that are put together before it is known which of their pieces are missing.
const TOGETHER: usize = 4096;

/// Whether what was opened belongs to another node, so that parts of it may be missing here.
pub fn is_away(handle: u64) -> bool {
    handle >= AWAY
}

impl Client {
    /// Waits until bytes of what was opened with [`Open::parts`](super::Open::parts) are there,
    /// which another node sends. Whether all bytes of the file are there, now and for ever.
    ///
    /// # Errors
    /// `EIO` if that node has ended; the agent cannot be reached.
    pub fn fetch(&self, handle: u64, extents: &[Extent]) -> io::Result<bool> {
        for extents in extents.chunks(EXTENTS) {
            let request = Request::Fetch(handle, extents.to_vec());
            match self.connections.call(&request)?.0 {
                Reply::Done => {}
                Reply::Whole => return Ok(true),
                other => return Err(failure(other, &request)),
            }
        }
        Ok(false)
    }
}

/// The units of an open file that are known to be there.
#[derive(Debug, Default)]
pub struct Parts {
    are_all_there: AtomicBool,
    known: Mutex<BTreeSet<u64>>,
}

impl Parts {
    /// Of what `client` has opened with [`Open::parts`](super::Open::parts).
    pub fn of(client: &Client, handle: u64) -> Self {
        let are_all_there = !is_away(handle) && !client.is_between_nodes();
        Self { are_all_there: AtomicBool::new(are_all_there), ..Self::default() }
    }

    /// Other nodes may have newer bytes by now of what `client` has opened.
    pub fn forget(&self, client: &Client, handle: u64) {
        if is_away(handle) || client.is_between_nodes() {
            self.are_all_there.store(false, Release);
            self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
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
            let pieces: BTreeSet<u64> = extents.by_ref().take(TOGETHER).flat_map(pieces).collect();
            let missing: Vec<u64> = {
                let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.difference(&known).copied().collect()
            };
            if missing.is_empty() {
                continue;
            }
            waited += missing.len() as u64 * UNIT;
            if client.fetch(handle, &joined(&missing))? {
                self.are_all_there.store(true, Release);
            }
            self.known.lock().unwrap_or_else(PoisonError::into_inner).extend(missing);
        }
        Ok(waited)
    }
}

fn pieces(extent: Extent) -> std::ops::RangeInclusive<u64> {
    extent.offset / UNIT..=(extent.end() - 1) / UNIT
}

/// The bytes of these pieces, which are in order.
fn joined(pieces: &[u64]) -> Vec<Extent> {
    let mut all: Vec<Extent> = Vec::new();
    for piece in pieces {
        let offset = piece * UNIT;
        match all.last_mut().filter(|last| last.end() == offset) {
            Some(last) => last.len += UNIT,
            None => all.push(Extent::new(offset, UNIT)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_asked_for_as_few_ranges() {
        let extents = [Extent::new(5, 1), Extent::new(UNIT - 1, 2), Extent::new(7 * UNIT, UNIT)];
        let wanted: BTreeSet<u64> = extents.into_iter().flat_map(pieces).collect();
        assert_eq!(wanted, [0, 1, 7].into());
        let all: Vec<u64> = wanted.into_iter().collect();
        assert_eq!(joined(&all), [Extent::new(0, 2 * UNIT), Extent::new(7 * UNIT, UNIT)]);
    }
}

//! Large reads that are equal on several ranks of a node: one of them fetches the bytes for all.
//!
//! HDF5 reads a chunk with filters as a whole, on each rank that needs a part of it, and again when
//! its chunk cache has no room for it. The second rank that reads the same extent fetches it for
//! the others; from then on the first one does, as long as others use the fetched bytes. Kept bytes
//! are valid under the same conditions as pieces for small reads.

use super::small::{SmallReads, state};
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::pieces::{FRESH, Fetch, Look, PIECE};
use aggio_config::hints::{Hints, Switch};
use aggio_store::driver::Stamp;
use std::time::Duration;

/// Reads of more bytes are made as they are.
pub(super) const MOST: u64 = 8 << 20;

/// The minimum time that a rank waits for another one.
const LEAST_PATIENCE: Duration = Duration::from_millis(5);

/// The bytes of an extent, how many of them are there, and the pieces after these that this rank
/// shall fetch.
struct Gathered<'a> {
    bytes: Vec<u8>,
    there: usize,
    fetches: Vec<(Fetch<'a>, Extent)>,
}

impl SmallReads {
    /// The bytes of `extent`, of more than a small read and of [`MOST`] bytes at most, if another
    /// rank has fetched them or this one has done so for others.
    pub(super) fn read_alike(&self, extent: Extent, hints: &Hints) -> Option<Vec<u8>> {
        let stamp = self.driver.stamp()?;
        if extent.end() > u64::try_from(stamp.size).ok()? {
            return None;
        }
        let patience = self.patience(extent.len, hints);
        let bytes = aggio_base::allocate::zeros(extent.len as usize).ok()?;
        let mut gathered = Gathered { bytes, there: 0, fetches: Vec::new() };
        for offset in (extent.offset..extent.end()).step_by(PIECE) {
            let part = Extent::new(offset, (extent.end() - offset).min(PIECE as u64));
            let (state, len) = (state(stamp), part.len as usize);
            let look = match offset == extent.offset {
                true => self.pieces.look_at_extent(offset, state, len, patience),
                false => self.pieces.look_further(offset, state, len, patience),
            };
            match look {
                Look::Fetch(fetch) => gathered.fetches.push((fetch, part)),
                Look::Bytes(bytes) if bytes.len() == len => {
                    self.fetch_alike(&mut gathered, stamp)?;
                    gathered.bytes[gathered.there..gathered.there + len].copy_from_slice(&bytes);
                    gathered.there += len;
                }
                Look::Bytes(_) | Look::AsItIs => return None,
            }
        }
        let is_found = gathered.fetches.is_empty();
        self.fetch_alike(&mut gathered, stamp)?;
        Counters::add(&self.counters.remembered, u64::from(is_found));
        Some(gathered.bytes)
    }

    /// How long to wait for another rank that fetches this number of bytes: if that rank has no
    /// processor, or less of the device than this one would have, an own request ends earlier.
    fn patience(&self, len: u64, hints: &Hints) -> Duration {
        if hints.aggio_small_reads == Switch::Enable {
            return FRESH;
        }
        let costs = self.cost_of_reads();
        let transfer = costs.mib().saturating_mul(len) >> 20;
        let expected = Duration::from_nanos(costs.latency().saturating_add(transfer));
        (2 * expected).clamp(LEAST_PATIENCE, FRESH)
    }

    /// Fetches the pieces that were promised to others, by one request.
    fn fetch_alike(&self, gathered: &mut Gathered<'_>, stamp: Stamp) -> Option<()> {
        let fetches = std::mem::take(&mut gathered.fetches);
        let Some((_, first)) = fetches.first() else { return Some(()) };
        let offset = first.offset;
        let len: u64 = fetches.iter().map(|(_, part)| part.len).sum();
        let end = gathered.there + len as usize;
        let fetched = &mut gathered.bytes[gathered.there..end];
        let read = self.driver.read_contig(fetched, offset, &self.counters);
        if read.result.is_err() {
            // On failure, the read itself requests the bytes again and reports the error.
            fetches.into_iter().for_each(|(fetch, _)| fetch.failed());
            return None;
        }
        if read.bytes != len {
            return None;
        }
        // Another process may have changed the file meanwhile.
        if self.driver.stamp() == Some(stamp) {
            for (fetch, part) in fetches {
                let at = (part.offset - offset) as usize;
                fetch.done(&fetched[at..at + part.len as usize]);
            }
        }
        gathered.there = end;
        Some(())
    }
}

//! Node aggregation: the aggregators, and the windows of shared memory that data passes through.

use super::{Domains, Guide, Sequence, Total};
use crate::format::Map;

/// If there are more windows than this many times those that the data fills, most are empty: not
/// worth it.
const SPARSE: u64 = 32;

/// Windows that may be empty in any case.
const FREE: u64 = 64;

/// Properties of the file and its hints before a call; equal on all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Premises<'a> {
    /// The unit in which the file system stores, locks or stripes, in bytes; 0 counts as 1.
    pub unit: u64,
    /// The hint `romio_min_fdomain_size`.
    pub least: u64,
    /// The hint `cb_buffer_size`.
    pub buffer_size: u64,
    /// Where the things in the file lie, if that is known.
    pub map: Option<&'a dyn Map>,
    /// Two aggregators may write to one unit: no other node's requests take it away, and nothing is
    /// striped.
    pub shares_units: bool,
}

impl Premises<'_> {
    /// `domains`, with borders where the things in the file have theirs; those lie at multiples of
    /// `whole` if windows are not to be cut, of units if these are not to be shared, or anywhere.
    pub fn refine(&self, domains: Domains, whole: Option<u64>) -> Domains {
        let alone = if self.shares_units { 1 } else { self.unit };
        match self.map {
            Some(map) => {
                let (unit, least) = (whole.unwrap_or(alone), self.least);
                domains.following(Guide { map, unit, least })
            }
            None => domains,
        }
    }
}

/// The aggregators that get file domains, in the order of these, out of those `chosen` for the
/// file; `node_of` maps a rank to its node.
///
/// Every rank of an aggregator's node stores its windows, so one for each node is enough, unless
/// ranks would wait for each other to fill windows longer than these take to be stored. Nodes come
/// in the order of their ranks, as data often does: then most of it stays where it is.
pub fn aggregators(
    chosen: &[usize],
    total: &Total,
    node_of: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut chosen = chosen.to_vec();
    chosen.sort_by_key(|rank| (node_of(*rank), *rank));
    if !total.is_spread() || total.figures.is_slow() {
        chosen.dedup_by_key(|rank| node_of(*rank));
    }
    chosen
}

impl Sequence {
    /// The windows of a call with this number of `aggregators`; `room` returns the largest size of
    /// a window in bytes if pieces start and end at multiples of 2 to a power.
    ///
    /// Where a request takes long, file domains consist of whole windows: a few more bytes in a
    /// request cost nothing, while a second request, or a second client in a lock unit, does.
    pub fn of(
        total: &Total,
        aggregators: usize,
        premises: Premises<'_>,
        room: impl Fn(u32) -> u64,
    ) -> Self {
        let unit = premises.unit.max(1);
        let with_windows_of = |size: u64| {
            let whole = size.checked_next_multiple_of(unit).filter(|_| total.figures.is_slow());
            let domains =
                Domains::new(total.hull, aggregators, whole.unwrap_or(unit), premises.least);
            Self::new(premises.refine(domains, whole), size)
        };
        let size = |grain| room(grain).min(premises.buffer_size).max(1);
        let windows = with_windows_of(size(total.grain.into()));
        // Borders that no mark can stand for leave less room.
        if size(windows.grain().min(total.grain.into())) >= windows.size() {
            windows
        } else {
            with_windows_of(size(0))
        }
    }

    /// Whether most windows would be empty with `bytes` bytes in them.
    pub fn is_sparse(&self, bytes: u64) -> bool {
        let filled = bytes.div_ceil(self.size());
        self.count() > filled.saturating_mul(SPARSE).saturating_add(FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cost::Costs;
    use aggio_base::Extent;

    const MIB: u64 = 1 << 20;
    const PREMISES: Premises<'_> =
        Premises { unit: 4096, least: 0, buffer_size: 16 * MIB, map: None, shares_units: true };

    fn total(start: u64, len: u64, latency: u64) -> Total {
        Total {
            hull: Extent::new(start, len),
            bytes: len,
            grain: 3,
            figures: Costs::new(latency, MIB),
            ..Total::default()
        }
    }

    fn windows(total: &Total, aggregators: usize, premises: Premises<'_>) -> Vec<Extent> {
        let windows = Sequence::of(total, aggregators, premises, |_| MIB);
        let extents = (0..windows.count() as u32).map(|window| windows.extent(window));
        extents.filter(|extent| !extent.is_empty()).collect()
    }

    #[test]
    fn where_requests_take_long_windows_are_not_cut_for_the_sake_of_equal_domains() {
        let starts = |latency| {
            let windows = windows(&total(0, 3 * MIB, latency), 2, PREMISES);
            let mut starts: Vec<u64> = windows.iter().map(|window| window.offset).collect();
            starts.sort_unstable();
            starts
        };
        assert_eq!(starts(1_000_000), [0, MIB, 2 * MIB]);
        assert_eq!(starts(1_000), [0, MIB, 3 * MIB / 2, 2 * MIB]);
        let small = total(5000, 188_032, 1_000_000);
        assert_eq!(windows(&small, 4, PREMISES), [small.hull], "one request is enough");
        assert_eq!(windows(&total(5000, 188_032, 1_000), 4, PREMISES).len(), 4);
    }

    #[test]
    fn domains_keep_to_stripes_that_are_longer_than_windows() {
        let striped = Premises { unit: 4 * MIB, ..PREMISES };
        let windows = Sequence::of(&total(0, 10 * MIB, 1_000_000), 2, striped, |_| MIB);
        assert_eq!(windows.domain_extent(0), Extent::new(0, 8 * MIB));
        assert_eq!(windows.domain_extent(1), Extent::new(8 * MIB, 2 * MIB));
    }

    #[test]
    fn windows_are_as_large_as_marks_for_all_pieces_have_room() {
        let room = |grain: u32| (64 << 10) << grain.min(4);
        let size = |unit, buffer_size| {
            let premises = Premises { unit, buffer_size, ..PREMISES };
            Sequence::of(&total(0, 10 * MIB, 1_000), 3, premises, room).size()
        };
        assert_eq!(size(4096, u64::MAX), 512 << 10);
        assert_eq!(size(4096, 100_000), 100_000);
        assert_eq!(size(1001, u64::MAX), 64 << 10, "domains end at bytes without a mark");
        assert_eq!(size(4096, 100_001), 64 << 10, "and so would windows");
    }

    #[test]
    fn a_node_has_one_aggregator_unless_its_ranks_would_wait_for_each_other() {
        let nodes = |total: &Total| aggregators(&[0, 2, 1, 3], total, |rank| rank % 2);
        let spread = |latency| Total { ranks: 4, spans: 10, ..total(0, 10, latency) };
        assert_eq!(nodes(&Total { spans: 40, ..spread(1_000) }), [0, 1]);
        assert_eq!(nodes(&spread(1_000)), [0, 2, 1, 3]);
        assert_eq!(nodes(&spread(1_000_000)), [0, 1], "storing is what takes long");
    }

    #[test]
    fn few_bytes_far_apart_are_not_worth_windows() {
        let windows = Sequence::of(&total(0, 1000 * MIB, 1_000), 1, PREMISES, |_| MIB);
        assert!(windows.is_sparse(MIB) && !windows.is_sparse(100 * MIB));
    }
}

//! Bytes on their way here from the nodes that keep them.

use super::Key;
use crate::protocol::bad;
use crate::registry::Area;
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::Peer;
use std::collections::BTreeMap;
use std::io;

/// The destination of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A copy of what another node owns, and the number of its memory: it may have been made anew.
    Copy(Key, Area),
    /// The memory of a generation of this node.
    Own(Area),
}

/// Ranges of which several nodes have parts.
#[derive(Debug)]
struct Take {
    target: Target,
    /// Ranges of which parts have not arrived.
    ranges: Vec<Extent>,
    /// The parts that have not arrived, and their nodes.
    left: Overlay<Peer>,
}

impl Take {
    fn lacks(&self, range: Extent) -> bool {
        self.left.within(range).next().is_some()
    }
}

/// All requests for bytes, by the numbers that they and their answers carry.
#[derive(Debug, Default)]
pub(crate) struct Takes {
    last: u64,
    all: BTreeMap<u64, Take>,
}

impl Takes {
    /// The parts of `ranges` are asked for. The number of the request.
    pub(crate) fn begin(
        &mut self,
        target: Target,
        ranges: Vec<Extent>,
        parts: impl IntoIterator<Item = (Extent, Peer)>,
    ) -> u64 {
        self.last += 1;
        let mut left = Overlay::default();
        parts.into_iter().for_each(|(part, peer)| left.put(part, peer));
        self.all.insert(self.last, Take { target, ranges, left });
        self.last
    }

    /// The destination of these bytes, if they were requested from `peer`.
    pub(crate) fn target(&self, tag: u64, peer: Peer, part: Extent) -> Option<Target> {
        let take = self.all.get(&tag)?;
        let asked = take.left.within(part).filter(|(_, of)| *of == peer);
        let is_all = asked.map(|(one, _)| one.len).sum::<u64>() == part.len;
        (is_all && !part.is_empty()).then_some(take.target)
    }

    /// Bytes have come from `peer`. Returns their destination, and the ranges that are now
    /// complete; `None` if nobody wants them any more.
    ///
    /// # Errors
    /// It was not asked for them.
    pub(crate) fn come(
        &mut self,
        tag: u64,
        peer: Peer,
        part: Extent,
    ) -> io::Result<Option<(Target, Vec<Extent>)>> {
        let target = self.target(tag, peer, part);
        let Some(take) = self.all.get_mut(&tag) else { return Ok(None) };
        let target = target.ok_or_else(|| bad("bytes that nobody has asked for"))?;
        take.left.take(part);
        let (left, there): (Vec<Extent>, Vec<Extent>) =
            std::mem::take(&mut take.ranges).into_iter().partition(|range| take.lacks(*range));
        take.ranges = left;
        if take.ranges.is_empty() {
            self.all.remove(&tag);
        }
        Ok(Some((target, there)))
    }

    /// Gives up a request. Returns its destination, and the ranges that are not there.
    pub(crate) fn fail(&mut self, tag: u64) -> Option<(Target, Vec<Extent>)> {
        self.all.remove(&tag).map(|take| (take.target, take.ranges))
    }

    /// The parts that were to come from `peer` do not come. Returns the destination, and the ranges
    /// that lack them; others of the request still come.
    pub(crate) fn fail_of(&mut self, tag: u64, peer: Peer) -> Option<(Target, Vec<Extent>)> {
        let take = self.all.get_mut(&tag)?;
        let (left, target) = (&take.left, take.target);
        let is_lost = |range: &Extent| left.within(*range).any(|(_, of)| of == peer);
        let (lost, others) = std::mem::take(&mut take.ranges).into_iter().partition(is_lost);
        // Other parts of the lost ranges may be on their way.
        take.ranges = others;
        if take.ranges.is_empty() {
            self.all.remove(&tag);
        }
        Some((target, lost))
    }

    /// The requests of which a part was to come from `peer`.
    pub(crate) fn of(&self, peer: Peer) -> Vec<u64> {
        let has = |take: &Take| take.left.iter().any(|(_, of)| of == peer);
        self.all.iter().filter(|(_, take)| has(take)).map(|(tag, _)| *tag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_there_when_all_nodes_have_sent_their_parts() {
        let (mut takes, one, two) = (Takes::default(), Peer(1), Peer(2));
        let target = Target::Copy((Peer(9), 4), 1);
        let parts =
            [(Extent::new(10, 5), one), (Extent::new(15, 5), two), (Extent::new(40, 2), one)];
        let ranges = vec![Extent::new(10, 10), Extent::new(40, 2)];
        let tag = takes.begin(target, ranges, parts);
        takes.come(tag, two, Extent::new(10, 5)).unwrap_err();
        takes.come(tag, one, Extent::new(10, 6)).unwrap_err();
        takes.come(tag, one, Extent::new(10, 0)).unwrap_err();
        assert_eq!(takes.come(tag, one, Extent::new(12, 2)).unwrap(), Some((target, vec![])));
        takes.come(tag, one, Extent::new(12, 1)).unwrap_err();
        let second = takes.come(tag, one, Extent::new(40, 2)).unwrap();
        assert_eq!(second, Some((target, vec![Extent::new(40, 2)])));
        assert_eq!(takes.of(one), [tag]);
        takes.come(tag, one, Extent::new(10, 2)).unwrap();
        takes.come(tag, one, Extent::new(14, 1)).unwrap();
        assert_eq!((takes.of(one), takes.of(two)), (vec![], vec![tag]));
        let last = takes.come(tag, two, Extent::new(15, 5)).unwrap();
        assert_eq!(last, Some((target, vec![Extent::new(10, 10)])));
        assert_eq!(takes.come(tag, two, Extent::new(15, 5)).unwrap(), None);
    }

    #[test]
    fn ranges_of_other_nodes_come_when_one_is_gone() {
        let (mut takes, one, two) = (Takes::default(), Peer(1), Peer(2));
        let (both, other) = (Extent::new(0, 10), Extent::new(20, 5));
        let parts = [(Extent::new(0, 4), one), (Extent::new(4, 6), two), (other, two)];
        let target = Target::Copy((Peer(9), 4), 1);
        let tag = takes.begin(target, vec![both, other], parts);
        assert_eq!(takes.fail_of(tag, Peer(3)), Some((target, vec![])));
        assert_eq!(takes.fail_of(tag, one), Some((target, vec![both])));
        assert_eq!(takes.come(tag, two, Extent::new(4, 6)).unwrap(), Some((target, vec![])));
        assert_eq!(takes.come(tag, two, other).unwrap(), Some((target, vec![other])));
        assert_eq!(takes.fail_of(tag, two), None);
    }

    #[test]
    fn a_range_whose_node_is_gone_is_told_once() {
        let mut takes = Takes::default();
        let (range, peer) = (Extent::new(0, 9), Peer(1));
        let tag = takes.begin(Target::Own(3), vec![range], [(range, peer)]);
        assert_eq!(takes.fail(tag), Some((Target::Own(3), vec![range])));
        assert_eq!(takes.fail(tag), None);
    }
}

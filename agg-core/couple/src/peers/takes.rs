//! Bytes on their way here from the nodes that keep them.

use super::Key;
use crate::protocol::bad;
use crate::registry::Area;
use aggio_base::Extent;
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

/// A range of which several nodes have parts.
#[derive(Debug)]
struct Take {
    target: Target,
    range: Extent,
    /// Parts that have not arrived: offset, length, and node.
    left: BTreeMap<u64, (u64, Peer)>,
}

/// All that was asked for, by the numbers that requests and answers carry.
#[derive(Debug, Default)]
pub(crate) struct Takes {
    last: u64,
    all: BTreeMap<u64, Take>,
}

impl Takes {
    /// These parts of `range` are asked for. The number of the request.
    pub(crate) fn begin(
        &mut self,
        target: Target,
        range: Extent,
        parts: impl IntoIterator<Item = (Extent, Peer)>,
    ) -> u64 {
        self.last += 1;
        let left = parts.into_iter().map(|(part, peer)| (part.offset, (part.len, peer))).collect();
        self.all.insert(self.last, Take { target, range, left });
        self.last
    }

    /// The destination of these bytes, if they were requested from `peer`.
    pub(crate) fn target(&self, tag: u64, peer: Peer, part: Extent) -> Option<Target> {
        let take = self.all.get(&tag)?;
        let (from, (len, of)) = take.left.range(..=part.offset).next_back()?;
        let is_in = *of == peer && part.end() <= from + len;
        is_in.then_some(take.target)
    }

    /// Bytes have come from `peer`: what they are for, and the whole range if it is all there.
    /// `None` if nobody wants them any more.
    ///
    /// # Errors
    /// It was not asked for them.
    pub(crate) fn come(
        &mut self,
        tag: u64,
        peer: Peer,
        part: Extent,
    ) -> io::Result<Option<(Target, Option<Extent>)>> {
        let target = self.target(tag, peer, part).filter(|_| !part.is_empty());
        let Some(take) = self.all.get_mut(&tag) else { return Ok(None) };
        let target = target.ok_or_else(|| bad("bytes that nobody has asked for"))?;
        let found = take.left.range(..=part.offset).next_back();
        if let Some((from, (len, _))) = found.map(|(from, left)| (*from, *left)) {
            take.left.remove(&from);
            if from < part.offset {
                take.left.insert(from, (part.offset - from, peer));
            }
            if part.end() < from + len {
                take.left.insert(part.end(), (from + len - part.end(), peer));
            }
        }
        if !take.left.is_empty() {
            return Ok(Some((target, None)));
        }
        let range = take.range;
        self.all.remove(&tag);
        Ok(Some((target, Some(range))))
    }

    /// Gives up a request. Returns its destination and range.
    pub(crate) fn fail(&mut self, tag: u64) -> Option<(Target, Extent)> {
        self.all.remove(&tag).map(|take| (take.target, take.range))
    }

    /// The requests of which a part was to come from `peer`.
    pub(crate) fn of(&self, peer: Peer) -> Vec<u64> {
        let has = |take: &Take| take.left.values().any(|(_, of)| *of == peer);
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
        let parts = [(Extent::new(10, 5), one), (Extent::new(15, 5), two)];
        let tag = takes.begin(target, Extent::new(10, 10), parts);
        takes.come(tag, two, Extent::new(10, 5)).unwrap_err();
        takes.come(tag, one, Extent::new(10, 6)).unwrap_err();
        assert_eq!(takes.come(tag, one, Extent::new(12, 2)).unwrap(), Some((target, None)));
        takes.come(tag, one, Extent::new(12, 1)).unwrap_err();
        assert_eq!(takes.of(one), [tag]);
        takes.come(tag, one, Extent::new(10, 2)).unwrap();
        takes.come(tag, one, Extent::new(14, 1)).unwrap();
        assert_eq!((takes.of(one), takes.of(two)), (vec![], vec![tag]));
        let last = takes.come(tag, two, Extent::new(15, 5)).unwrap();
        assert_eq!(last, Some((target, Some(Extent::new(10, 10)))));
        assert_eq!(takes.come(tag, two, Extent::new(15, 5)).unwrap(), None);
    }

    #[test]
    fn a_range_whose_node_is_gone_is_told_once() {
        let mut takes = Takes::default();
        let tag = takes.begin(Target::Own(3), Extent::new(0, 9), [(Extent::new(0, 9), Peer(1))]);
        assert_eq!(takes.fail(tag), Some((Target::Own(3), Extent::new(0, 9))));
        assert_eq!(takes.fail(tag), None);
    }
}

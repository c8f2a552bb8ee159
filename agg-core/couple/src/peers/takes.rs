//! Bytes on their way here from the nodes that keep them.

use super::{Action, Key, Message, differences};
use crate::protocol::bad;
use crate::registry::Area;
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::{Body, Peer};
use std::collections::BTreeMap;
use std::io;

/// Places in one message, at most.
const PLACES: usize = 200_000;

/// The destination of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A replica, and the number of its memory: it may have been made anew.
    Replica(Key, Area),
    /// The memory of a generation of this node.
    Own(Area),
}

/// The node that sends a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sender {
    peer: Peer,
    /// It sends the part without a request.
    pushes: bool,
}

/// A part that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) extent: Extent,
    pub(crate) peer: Peer,
    /// The number by which the node knows the bytes.
    pub(crate) area: Area,
    /// The node sends it without a request.
    pub(crate) pushed: bool,
}

/// Ranges with parts of several nodes.
#[derive(Debug)]
struct Take {
    target: Target,
    /// Ranges with parts that have not arrived, by their offsets; they are apart.
    ranges: BTreeMap<u64, Extent>,
    /// The parts that have not arrived, and their nodes.
    left: Overlay<Sender>,
}

impl Take {
    fn lacks(&self, range: Extent) -> bool {
        self.left.within(range).next().is_some()
    }

    /// Bytes have arrived. Returns the ranges that are now complete.
    fn come(&mut self, part: Extent) -> Vec<Extent> {
        self.left.take(part);
        let before = self.ranges.range(..part.offset).next_back();
        let touched = before.into_iter().chain(self.ranges.range(part.offset..part.end()));
        let touched = touched.map(|(_, range)| *range);
        let there: Vec<Extent> = touched
            .filter(|range| !range.intersect(part).is_empty() && !self.lacks(*range))
            .collect();
        there.iter().for_each(|range| _ = self.ranges.remove(&range.offset));
        there
    }
}

/// All requests for bytes, by the numbers that they and their answers carry.
#[derive(Debug, Default)]
pub(crate) struct Takes {
    last: u64,
    all: BTreeMap<u64, Take>,
    /// Requests that were sent.
    pub(crate) sent: u64,
}

impl Takes {
    /// The parts of `ranges` are to come. The number of the request.
    pub(crate) fn begin(&mut self, target: Target, ranges: Vec<Extent>, parts: &[Part]) -> u64 {
        self.last += 1;
        let mut left = Overlay::default();
        for Part { extent, peer, pushed, .. } in parts.iter().copied() {
            left.put(extent, Sender { peer, pushes: pushed });
        }
        let ranges = ranges.into_iter().map(|range| (range.offset, range)).collect();
        self.all.insert(self.last, Take { target, ranges, left });
        self.last
    }

    /// Requests parts of ranges, from each node once for all that it keeps for the owner with these
    /// words.
    pub(crate) fn request(
        &mut self,
        target: Target,
        owner: &str,
        ranges: Vec<Extent>,
        parts: &[Part],
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if parts.is_empty() {
            return actions;
        }
        let mut of_nodes = BTreeMap::<(Peer, Area), Vec<Extent>>::new();
        for part in parts.iter().filter(|part| !part.pushed) {
            of_nodes.entry((part.peer, part.area)).or_default().push(part.extent);
        }
        let tag = self.begin(target, ranges, parts);
        for ((peer, area), mut places) in of_nodes {
            places.sort_unstable_by_key(|place| place.offset);
            let take = |places| {
                let take = Message::Take { tag, owner: owner.to_owned(), area };
                (take, Body::Bytes(differences::places(places)))
            };
            let all: Vec<(Message, Body)> = places.chunks(PLACES).map(take).collect();
            self.sent += all.len() as u64;
            actions.push(Action::Take(tag, peer, all));
        }
        actions
    }

    /// The connection with a node has ended: the bytes that it was to send do not come.
    pub(crate) fn lose(&self, peer: Peer, text: &str) -> Vec<Action> {
        let lost = self.of(peer).into_iter();
        lost.map(|tag| Action::Lost(tag, peer, text.to_owned())).collect()
    }

    /// The destination of these bytes, if they were requested from `peer`.
    pub(crate) fn target(&self, tag: u64, peer: Peer, part: Extent) -> Option<Target> {
        let take = self.all.get(&tag)?;
        let sender = Sender { peer, pushes: false };
        let asked = take.left.within(part).filter(|(_, of)| *of == sender);
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
        let there = take.come(part);
        if take.ranges.is_empty() {
            self.all.remove(&tag);
        }
        Ok(Some((target, there)))
    }

    /// Bytes of a copy have arrived from a node that sends them without a request. Returns the
    /// ranges that are now complete.
    pub(crate) fn pushed(&mut self, target: Target, peer: Peer, part: Extent) -> Vec<Extent> {
        let sender = Sender { peer, pushes: true };
        let mut complete = Vec::new();
        for take in self.all.values_mut().filter(|take| take.target == target) {
            let came = take.left.within(part).filter(|(_, of)| *of == sender);
            let came: Vec<Extent> = came.map(|(one, _)| one).collect();
            complete.extend(came.into_iter().flat_map(|one| take.come(one)));
        }
        self.all.retain(|_, take| !take.ranges.is_empty());
        complete
    }

    /// The requests with parts that a node is to send without a request: their numbers, the
    /// destinations, and these parts.
    pub(crate) fn awaited(&self, peer: Peer) -> Vec<(u64, Target, Vec<Extent>)> {
        let sender = Sender { peer, pushes: true };
        let all = self.all.iter().map(|(tag, take)| {
            let parts = take.left.iter().filter(|(_, of)| *of == sender);
            (*tag, take.target, parts.map(|(part, _)| part).collect::<Vec<_>>())
        });
        all.filter(|(.., parts)| !parts.is_empty()).collect()
    }

    /// Parts that a node was to send without a request are requested.
    pub(crate) fn ask(&mut self, tag: u64, peer: Peer, parts: &[Extent]) {
        if let Some(take) = self.all.get_mut(&tag) {
            let sender = Sender { peer, pushes: false };
            parts.iter().for_each(|part| take.left.put(*part, sender));
        }
    }

    /// Gives up a request. Returns its destination, and the ranges that are not there.
    pub(crate) fn fail(&mut self, tag: u64) -> Option<(Target, Vec<Extent>)> {
        self.all.remove(&tag).map(|take| (take.target, take.ranges.into_values().collect()))
    }

    /// The parts that were to come from `peer` do not come. Returns the destination, and the ranges
    /// that lack them; others of the request still come.
    pub(crate) fn fail_of(&mut self, tag: u64, peer: Peer) -> Option<(Target, Vec<Extent>)> {
        let take = self.all.get_mut(&tag)?;
        let (left, target) = (&take.left, take.target);
        let is_lost = |range: &Extent| left.within(*range).any(|(_, of)| of.peer == peer);
        let lost: Vec<Extent> = take.ranges.values().copied().filter(is_lost).collect();
        // Other parts of the lost ranges may be on their way.
        lost.iter().for_each(|range| _ = take.ranges.remove(&range.offset));
        if take.ranges.is_empty() {
            self.all.remove(&tag);
        }
        Some((target, lost))
    }

    /// The requests for parts that were to come from `peer`.
    pub(crate) fn of(&self, peer: Peer) -> Vec<u64> {
        let has = |take: &Take| take.left.iter().any(|(_, of)| of.peer == peer);
        self.all.iter().filter(|(_, take)| has(take)).map(|(tag, _)| *tag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, len: u64, peer: Peer) -> Part {
        Part { extent: Extent::new(offset, len), peer, area: 4, pushed: false }
    }

    #[test]
    fn bytes_that_nobody_requests_complete_ranges_too() {
        let (mut takes, one, two) = (Takes::default(), Peer(1), Peer(2));
        let target = Target::Replica((Peer(9), 4), 1);
        let range = Extent::new(0, 10);
        let parts = [part(0, 4, one), Part { pushed: true, ..part(4, 6, two) }];
        let tag = takes.begin(target, vec![range], &parts);
        takes.come(tag, two, Extent::new(4, 6)).unwrap_err();
        assert_eq!(takes.pushed(target, one, range), [], "it was asked");
        assert_eq!(takes.pushed(Target::Own(4), two, range), []);
        assert_eq!(takes.pushed(target, two, Extent::new(0, 8)), []);
        assert_eq!(takes.awaited(two), [(tag, target, vec![Extent::new(8, 2)])]);
        takes.come(tag, one, Extent::new(0, 4)).unwrap();
        assert_eq!(takes.pushed(target, two, Extent::new(8, 2)), [range]);
        let tag = takes.begin(target, vec![range], &parts);
        takes.ask(tag, two, &[Extent::new(4, 6)]);
        assert_eq!(takes.pushed(target, two, range), []);
        takes.come(tag, two, Extent::new(4, 6)).unwrap();
        assert_eq!(takes.fail_of(tag, one), Some((target, vec![range])));
    }

    #[test]
    fn a_range_is_there_when_all_nodes_have_sent_their_parts() {
        let (mut takes, one, two) = (Takes::default(), Peer(1), Peer(2));
        let target = Target::Replica((Peer(9), 4), 1);
        let parts = [part(10, 5, one), part(15, 5, two), part(40, 2, one)];
        let ranges = vec![Extent::new(10, 10), Extent::new(40, 2)];
        let tag = takes.begin(target, ranges, &parts);
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
        let parts = [part(0, 4, one), part(4, 6, two), part(20, 5, two)];
        let target = Target::Replica((Peer(9), 4), 1);
        let tag = takes.begin(target, vec![both, other], &parts);
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
        let tag = takes.begin(Target::Own(3), vec![range], &[part(0, 9, peer)]);
        assert_eq!(takes.fail(tag), Some((Target::Own(3), vec![range])));
        assert_eq!(takes.fail(tag), None);
    }
}

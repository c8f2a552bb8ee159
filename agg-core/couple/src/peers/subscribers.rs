//! Nodes that subscribed to bytes of the next generations of a series of files. This node sends
//! them these bytes when it has them, without being asked.

use crate::registry::{Area, Series};
use aggio_base::Extent;
use aggio_link::Peer;
use std::collections::BTreeMap;

/// Series with subscribers, at most.
const SERIES: usize = 256;

/// The places that a node reads of each generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The number that the subscriber gave to these places.
    pub(crate) number: u64,
    pub(crate) places: Vec<Extent>,
    /// Generations that it accepts before it opens one of them.
    pub(crate) credit: u32,
}

/// The subscribers of one series.
#[derive(Debug)]
struct Readers {
    /// The last generation that was complete on this node.
    last: Area,
    all: BTreeMap<Peer, Subscription>,
}

/// The subscribers of all series, by the words of the owner and the series.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    all: BTreeMap<(String, Series), Readers>,
    /// The newest generation of each owner that was complete on this node.
    newest: BTreeMap<String, Area>,
}

impl Subscribers {
    /// A node subscribes; without `places` it wants those of before. Returns the credit that it
    /// has, and the last generation that it is not sent any more.
    pub(crate) fn subscribe(
        &mut self,
        (owner, series): (&str, &Series),
        peer: Peer,
        Subscription { number, places, credit }: Subscription,
    ) -> (u32, Area) {
        let newest = self.newest.get(owner).copied().unwrap_or(0);
        let key = (owner.to_owned(), series.clone());
        if self.all.len() >= SERIES && !self.all.contains_key(&key) {
            return (0, newest);
        }
        let entry = self.all.entry(key);
        let readers = entry.or_insert_with(|| Readers { last: newest, all: BTreeMap::new() });
        let last = readers.last;
        let known = readers.all.entry(peer).or_default();
        if !places.is_empty() {
            (known.number, known.places) = (number, places);
        }
        let is_known = known.number == number && !known.places.is_empty();
        known.credit = if is_known { credit } else { 0 };
        let left = known.credit;
        if left == 0 {
            readers.all.remove(&peer);
            self.all.retain(|_, readers| !readers.all.is_empty());
        }
        (left, last)
    }

    /// This node has its part of a generation. Returns the subscriptions that are served now, with
    /// the credit that is left of each.
    pub(crate) fn complete(
        &mut self,
        owner: &str,
        series: &Series,
        area: Area,
    ) -> Vec<(Peer, Subscription)> {
        let newest = self.newest.entry(owner.to_owned()).or_default();
        *newest = area.max(*newest);
        let Some(readers) = self.all.get_mut(&(owner.to_owned(), series.clone())) else {
            return Vec::new();
        };
        readers.last = area.max(readers.last);
        let served = readers.all.iter_mut().filter(|(_, one)| one.credit > 0);
        let served = served.map(|(peer, one)| {
            one.credit -= 1;
            (*peer, one.clone())
        });
        served.collect()
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.all.values_mut().for_each(|readers| _ = readers.all.remove(&peer));
        self.all.retain(|_, readers| !readers.all.is_empty());
    }

    /// An owner has ended.
    pub(crate) fn forget_owner(&mut self, owner: &str) {
        self.newest.remove(owner);
        self.all.retain(|(of, _), _| of != owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Peer = Peer(1);

    fn places(number: u64, places: &[Extent], credit: u32) -> Subscription {
        Subscription { number, places: places.to_vec(), credit }
    }

    #[test]
    fn a_node_is_sent_as_many_generations_as_it_accepts() {
        let (mut all, series) = (Subscribers::default(), b"step.0".to_vec());
        let (of, place) = (("a", &series), [Extent::new(3, 4)]);
        assert_eq!(all.complete("a", &series, 5), []);
        assert_eq!(all.subscribe(of, NODE, places(1, &place, 2)), (2, 5));
        assert_eq!(all.complete("b", &series, 6), [], "another owner");
        assert_eq!(all.complete("a", &b"other.0".to_vec(), 7), []);
        assert_eq!(all.complete("a", &series, 8), [(NODE, places(1, &place, 1))]);
        assert_eq!(all.complete("a", &series, 9), [(NODE, places(1, &place, 0))]);
        assert_eq!(all.complete("a", &series, 10), []);
        assert_eq!(all.subscribe(of, NODE, places(1, &[], 1)), (1, 10), "the places of before");
        assert_eq!(all.complete("a", &series, 11), [(NODE, places(1, &place, 0))]);
    }

    #[test]
    fn places_that_nobody_has_named_are_not_sent() {
        let (mut all, series) = (Subscribers::default(), b"step.0".to_vec());
        assert_eq!(all.subscribe(("a", &series), NODE, places(1, &[], 2)), (0, 0));
        assert_eq!(all.complete("a", &series, 8), []);
        let place = [Extent::new(3, 4)];
        all.subscribe(("a", &series), NODE, places(2, &place, 2));
        assert_eq!(all.subscribe(("a", &series), NODE, places(3, &[], 2)), (0, 8));
    }

    #[test]
    fn nodes_that_have_ended_are_sent_nothing() {
        let (mut all, series) = (Subscribers::default(), b"step.0".to_vec());
        let place = [Extent::new(3, 4)];
        all.subscribe(("a", &series), NODE, places(1, &place, 2));
        all.subscribe(("a", &series), Peer(2), places(1, &place, 2));
        all.forget(NODE);
        assert_eq!(all.complete("a", &series, 8), [(Peer(2), places(1, &place, 1))]);
        all.forget_owner("a");
        assert_eq!(all.complete("a", &series, 9), []);
    }

    #[test]
    fn no_more_series_are_remembered_than_there_is_room_for() {
        let mut all = Subscribers::default();
        let place = [Extent::new(3, 4)];
        for number in 0..SERIES + 1 {
            let series = format!("step {number}").into_bytes();
            let (credit, _) = all.subscribe(("a", &series), NODE, places(1, &place, 2));
            assert_eq!(credit > 0, number < SERIES);
        }
    }
}

//! Subscriptions of this node to bytes of the next generations of a series of files, and the bytes
//! that other nodes have announced because of them.
//!
//! A node that acknowledges a subscription announces each generation that is complete there, until
//! the credit is used up. This module follows the credit by the messages of that node, which arrive
//! in the order in which it sent them: generations that it must still announce need no request.

use super::Key;
use crate::registry::{Area, Path, Series};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::Peer;
use std::collections::BTreeMap;

/// The file of a generation that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) path: Path,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    /// The generation, by the owner's number.
    pub(crate) area: Area,
}

/// The places that a node sends, by the node, the owner of the files, and their series.
pub(crate) type Route = (Peer, Peer, Series);

#[derive(Debug)]
struct Subscription {
    template: Template,
    /// The number of these places.
    number: u64,
    places: Vec<Extent>,
    /// The node has acknowledged these places.
    is_noted: bool,
    /// Generations that it will announce, if they come after this one.
    credit: u32,
    after: Area,
}

/// Bytes of a copy that a node has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) key: Key,
    /// The number of the memory of the copy.
    pub(crate) local: Area,
    /// Bytes that have not arrived.
    pub(crate) left: u64,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    all: BTreeMap<Route, Subscription>,
    announced: BTreeMap<(Peer, u64), Announced>,
    last: u64,
}

impl Subscriptions {
    /// Programs have read these places of a generation. Returns the number of the places, and the
    /// places if the node does not know them yet; `None` if it needs no message.
    pub(crate) fn renew(
        &mut self,
        route: Route,
        template: Template,
        places: Vec<Extent>,
        credit: u32,
    ) -> Option<(u64, Vec<Extent>)> {
        if let Some(known) = self.all.get_mut(&route)
            && known.is_noted
            && known.places == places
        {
            known.template = template;
            return (known.credit < credit).then(|| (known.number, Vec::new()));
        }
        self.last += 1;
        let (number, sent) = (self.last, places.clone());
        let (is_noted, after) = (false, 0);
        let made = Subscription { template, number, places, is_noted, credit: 0, after };
        self.all.insert(route, made);
        Some((number, sent))
    }

    /// A node has acknowledged a subscription.
    pub(crate) fn noted(&mut self, route: &Route, number: u64, credit: u32, after: Area) {
        if let Some(known) = self.all.get_mut(route).filter(|known| known.number == number) {
            (known.is_noted, known.credit, known.after) = (credit > 0, credit, after);
        }
    }

    /// A node has announced a generation, or that it sends nothing of one. Returns the places of
    /// the subscription and the file of the last generation, if it means these places.
    pub(crate) fn announced(
        &mut self,
        route: &Route,
        number: u64,
        area: Area,
    ) -> Option<(Vec<Extent>, Template)> {
        let known = self.all.get_mut(route).filter(|known| known.number == number)?;
        known.credit = known.credit.saturating_sub(1);
        known.after = known.after.max(area);
        Some((known.places.clone(), known.template.clone()))
    }

    /// Whether a node will announce bytes of a generation that it has.
    pub(crate) fn promises(&self, route: &Route, area: Area, part: Extent) -> bool {
        let known = self.all.get(route).filter(|known| known.credit > 0 && area > known.after);
        known.is_some_and(|known| covers(&known.places, part))
    }

    /// The nodes that send bytes of a series, with the numbers of the places.
    pub(crate) fn of(&self, owner: Peer, series: &Series) -> Vec<(Route, u64)> {
        let is_it = |route: &Route| route.1 == owner && route.2 == *series;
        let all = self.all.iter().filter(|(route, _)| is_it(route));
        all.map(|(route, known)| (route.clone(), known.number)).collect()
    }

    /// The series of an owner that are subscribed to.
    pub(crate) fn series_of(&self, owner: Peer) -> Vec<Series> {
        let mut found: Vec<Series> =
            self.all.keys().filter(|route| route.1 == owner).map(|route| route.2.clone()).collect();
        found.dedup();
        found
    }

    /// The owners of files that are subscribed to.
    pub(crate) fn owners(&self) -> Vec<Peer> {
        let mut found: Vec<Peer> = self.all.keys().map(|route| route.1).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Ends a subscription.
    pub(crate) fn end(&mut self, route: &Route) {
        self.all.remove(route);
    }

    /// Bytes with a tag of this node will come into a copy.
    pub(crate) fn expect(&mut self, peer: Peer, tag: u64, announced: Announced) {
        self.announced.insert((peer, tag), announced);
    }

    /// The copy that bytes with this tag are for.
    pub(crate) fn target(&self, peer: Peer, tag: u64) -> Option<Announced> {
        self.announced.get(&(peer, tag)).copied()
    }

    /// Bytes with this tag have arrived.
    pub(crate) fn came(&mut self, peer: Peer, tag: u64, len: u64) {
        if let Some(announced) = self.announced.get_mut(&(peer, tag)) {
            announced.left = announced.left.saturating_sub(len);
            if announced.left == 0 {
                self.announced.remove(&(peer, tag));
            }
        }
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.all.retain(|(node, owner, _), _| *node != peer && *owner != peer);
        self.announced.retain(|(node, _), announced| *node != peer && announced.key.0 != peer);
    }
}

/// Whether `places`, which are in order and apart, have all bytes of `part`.
fn covers(places: &[Extent], part: Extent) -> bool {
    let first = places.partition_point(|place| place.end() <= part.offset);
    let touching = places[first..].iter().take_while(|place| place.offset < part.end());
    touching.map(|place| place.intersect(part).len).sum::<u64>() == part.len
}

/// Bytes of one copy that other nodes send without a request.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    /// The nodes that send, and the numbers of their last reports to the owner.
    reports: BTreeMap<Peer, u64>,
    /// The announced places: their nodes, and whether they have arrived.
    places: Overlay<(Peer, bool)>,
}

impl Pushed {
    /// A node announces bytes. Returns false, and notes nothing, if another one has announced some
    /// of them.
    pub(crate) fn begin(&mut self, peer: Peer, report: u64, places: &[Extent]) -> bool {
        let of_others = |place: &Extent| self.places.within(*place).any(|(_, (of, _))| of != peer);
        if places.iter().any(of_others) {
            return false;
        }
        self.reports.insert(peer, report);
        places.iter().for_each(|place| self.places.join(*place, (peer, false)));
        true
    }

    /// Whether all of `part` is on its way from `peer`.
    pub(crate) fn is_coming(&self, part: Extent, peer: Peer) -> bool {
        let coming = self.places.within(part).filter(|(_, one)| *one == (peer, false));
        !part.is_empty() && coming.map(|(one, _)| one.len).sum::<u64>() == part.len
    }

    /// Bytes have arrived from the node that has announced them.
    pub(crate) fn come(&mut self, part: Extent, peer: Peer) {
        self.places.join(part, (peer, true));
    }

    /// Whether all of `part` has arrived.
    pub(crate) fn is_there(&self, part: Extent) -> bool {
        let there = self.places.within(part).filter(|(_, (_, is_there))| *is_there);
        !part.is_empty() && there.map(|(one, _)| one.len).sum::<u64>() == part.len
    }

    /// The bytes of `part` that have not arrived, if `peer` has announced all of them.
    pub(crate) fn missing(&self, part: Extent, peer: Peer) -> Option<Vec<Extent>> {
        let own = || self.places.within(part).filter(|(_, (of, _))| *of == peer);
        if own().map(|(one, _)| one.len).sum::<u64>() != part.len {
            return None;
        }
        Some(own().filter(|(_, (_, is_there))| !is_there).map(|(one, _)| one).collect())
    }

    /// The announced places, with the nodes that have announced them and their reports.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Extent, Peer, u64)> {
        self.places
            .iter()
            .map(|(place, (peer, _))| (place, peer, self.reports.get(&peer).copied().unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Peer = Peer(1);
    const OWNER: Peer = Peer(2);

    fn route() -> Route {
        (NODE, OWNER, b"step.0".to_vec())
    }

    fn template() -> Template {
        Template { path: b"step.3".to_vec(), size: 100, mode: 0o644, area: 5 }
    }

    #[test]
    fn a_node_is_told_places_once_and_credit_when_it_is_used_up() {
        let mut all = Subscriptions::default();
        let places = vec![Extent::new(0, 10), Extent::new(20, 10)];
        let renew = |all: &mut Subscriptions, places: &[Extent]| {
            all.renew(route(), template(), places.to_vec(), 2)
        };
        assert_eq!(renew(&mut all, &places), Some((1, places.clone())));
        assert_eq!(renew(&mut all, &places), Some((2, places.clone())), "not acknowledged");
        assert!(!all.promises(&route(), 9, places[0]), "not acknowledged");
        all.noted(&route(), 1, 2, 7);
        assert!(!all.promises(&route(), 9, places[0]), "older places are meant");
        all.noted(&route(), 2, 2, 7);
        assert!(all.promises(&route(), 9, Extent::new(21, 3)));
        assert!(!all.promises(&route(), 7, places[0]), "it was complete before");
        for part in [Extent::new(5, 6), Extent::new(5, 20), Extent::new(40, 1)] {
            assert!(!all.promises(&route(), 9, part), "{part:?}");
        }
        assert_eq!(renew(&mut all, &places), None);
        assert_eq!(all.announced(&route(), 2, 9), Some((places.clone(), template())));
        assert!(!all.promises(&route(), 9, places[0]), "it was announced");
        assert!(all.promises(&route(), 10, places[0]));
        assert_eq!(renew(&mut all, &places), Some((2, vec![])));
        assert_eq!(all.announced(&route(), 2, 10), Some((places.clone(), template())));
        assert!(!all.promises(&route(), 11, places[0]), "the credit is used up");
        assert_eq!(renew(&mut all, &places[1..]), Some((3, places[1..].to_vec())));
        assert_eq!(all.announced(&route(), 2, 12), None, "older places are meant");
    }

    #[test]
    fn subscriptions_end_with_their_nodes() {
        let mut all = Subscriptions::default();
        let announced = Announced { key: (OWNER, 7), local: 3, left: 10 };
        for peer in [NODE, OWNER] {
            all.renew(route(), template(), vec![Extent::new(0, 10)], 2);
            all.expect(NODE, 4, announced);
            all.came(NODE, 4, 3);
            assert_eq!(all.target(NODE, 4).unwrap().left, 7);
            assert_eq!((all.owners(), all.series_of(OWNER)), (vec![OWNER], vec![route().2]));
            assert_eq!(all.of(OWNER, &route().2).len(), 1);
            all.forget(peer);
            assert_eq!((all.target(NODE, 4), all.owners()), (None, vec![]));
        }
        all.expect(NODE, 4, announced);
        all.came(NODE, 4, 10);
        assert_eq!(all.target(NODE, 4), None, "all have arrived");
    }

    #[test]
    fn announced_bytes_are_of_one_node() {
        let mut pushed = Pushed::default();
        let place = Extent::new(10, 10);
        assert!(pushed.begin(NODE, 1, &[place]));
        assert!(!pushed.begin(OWNER, 1, &[Extent::new(19, 5)]), "they are another node's");
        assert!(pushed.begin(OWNER, 3, &[Extent::new(20, 5)]));
        assert!(pushed.is_coming(place, NODE) && !pushed.is_coming(place, OWNER));
        pushed.come(Extent::new(10, 4), NODE);
        assert!(!pushed.is_coming(place, NODE));
        assert_eq!(pushed.missing(place, NODE), Some(vec![Extent::new(14, 6)]));
        assert_eq!(pushed.missing(Extent::new(11, 2), NODE), Some(vec![]));
        assert!(pushed.is_there(Extent::new(11, 2)) && !pushed.is_there(Extent::new(13, 2)));
        assert_eq!(pushed.missing(place, OWNER), None);
        assert_eq!(pushed.missing(Extent::new(18, 3), NODE), None);
        assert!(pushed.begin(NODE, 2, &[place]), "it was written once more");
        assert_eq!(pushed.missing(place, NODE), Some(vec![place]));
        let all: Vec<_> = pushed.all().collect();
        assert_eq!(all, [(place, NODE, 2), (Extent::new(20, 5), OWNER, 3)]);
    }
}

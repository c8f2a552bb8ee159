//! Maps the extents of a generation to the nodes that have their bytes. All other bytes are in the
//! memory of this node.

use super::differences::extent;
use super::{Instance, gaps};
use crate::protocol::{Reader, Writer, bad, flags};
use crate::registry::{Area, Series};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// All bytes of a file.
pub(crate) const ALL: Extent = Extent { offset: 0, len: u64::MAX };

/// A node that has bytes, and the generation to which it wrote them: this one, or an earlier one
/// with whose bytes this one began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    /// The connection that its agent has made.
    pub(crate) peer: Peer,
    pub(crate) area: Area,
}

/// A node that has bytes, as a reader is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The words of its agent.
    pub(crate) words: String,
    /// The number by which it knows the generation to which it wrote them.
    pub(crate) area: Area,
    /// The number of its last report about them.
    pub(crate) report: u64,
    /// It has announced them to its subscribers.
    pub(crate) announced: bool,
}

/// The nodes that have parts of a generation, as a reader is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Where {
    /// The owner has announced its bytes to its subscribers.
    pub(crate) announced: bool,
    pub(crate) nodes: Vec<Source>,
    /// Parts in order and apart, and of each the index of its node; `None` for the owner.
    pub(crate) parts: Vec<(Extent, Option<usize>)>,
}

impl Where {
    /// The body of a message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut out, mut last) = (Writer::default(), 0);
        out.byte(flags(&[self.announced]));
        out.list(&self.nodes, |out, node| {
            out.text(&node.words).number(node.area).number(node.report);
            out.byte(flags(&[node.announced]));
        });
        for (part, node) in &self.parts {
            out.short(part.offset - last).short(part.len);
            out.short(node.map_or(0, |node| node as u64 + 1));
            last = part.end();
        }
        out.0
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// `InvalidData` for what no agent of this version says.
    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut from = Reader(body);
        let node = |from: &mut Reader<'_>| {
            let (words, area, report) = (from.text()?, from.number()?, from.number()?);
            let [announced] = from.flags()?;
            Ok(Source { words, area, report, announced })
        };
        let [announced] = from.flags()?;
        let nodes = from.list(node)?;
        let (mut parts, mut last) = (Vec::new(), 0);
        while !from.0.is_empty() {
            let part = extent(&mut from, last)?;
            let node = from.short()?.checked_sub(1);
            let node = node.map(|node| usize::try_from(node).unwrap_or(usize::MAX));
            if node.is_some_and(|node| node >= nodes.len()) {
                return Err(bad("a part is nowhere"));
            }
            parts.push((part, node));
            last = part.end();
        }
        Ok(Self { announced, nodes, parts })
    }
}

/// What a node that has bytes has reported.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// The number of its last report.
    number: u64,
    /// The series under which it has announced the bytes to its subscribers.
    announced: Option<Series>,
}

/// The map of one generation.
#[derive(Clone, Debug, Default)]
struct Located {
    parts: Overlay<Holder>,
    /// All nodes that have, or had, bytes.
    holders: BTreeMap<Holder, Reported>,
    /// The series under which this node has announced its own bytes.
    announced: Option<Series>,
}

/// The maps of all generations of this node.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    areas: BTreeMap<Area, Located>,
    /// Who the agents of the nodes are.
    nodes: BTreeMap<Peer, Instance>,
}

impl Locations {
    /// The node of `peer`, whose agent is `node`, has the newest bytes of these extents, as it says
    /// in its report with this number.
    pub(crate) fn note(
        &mut self,
        (area, report): (Area, u64),
        peer: Peer,
        node: &Instance,
        extents: &[Extent],
    ) {
        if extents.is_empty() {
            return;
        }
        let (located, holder) = (self.areas.entry(area).or_default(), Holder { peer, area });
        located.holders.entry(holder).or_default().number = report;
        extents.iter().for_each(|extent| located.parts.join(*extent, holder));
        self.nodes.insert(peer, node.clone());
    }

    /// The node of `peer`, or this one, has announced its bytes of a generation to the subscribers
    /// of a series.
    pub(crate) fn announced(&mut self, area: Area, peer: Option<Peer>, series: Series) {
        match peer {
            None => self.areas.entry(area).or_default().announced = Some(series),
            Some(peer) => {
                let located = self.areas.get_mut(&area);
                let holders = located.map(|located| &mut located.holders);
                let reported = holders.and_then(|all| all.get_mut(&Holder { peer, area }));
                reported.into_iter().for_each(|one| one.announced = Some(series.clone()));
            }
        }
    }

    /// This node has the newest bytes of `extent`.
    pub(crate) fn is_here(&mut self, area: Area, extent: Extent) {
        if let Some(located) = self.areas.get_mut(&area) {
            located.parts.take(extent);
        }
    }

    /// This node has the bytes of `extent` by now that `holder` has.
    pub(crate) fn came(&mut self, area: Area, extent: Extent, holder: Holder) {
        let parts = self.within(area, extent);
        let same = parts.into_iter().filter(|(_, other)| *other == holder);
        same.for_each(|(part, _)| self.is_here(area, part));
    }

    /// The file was cut, or made longer, to so many bytes.
    pub(crate) fn cut(&mut self, area: Area, size: u64) {
        self.is_here(area, Extent::between(size, u64::MAX));
    }

    /// A generation begins with the bytes of another one.
    pub(crate) fn inherit(&mut self, area: Area, from: Area) {
        if let Some(located) = self.areas.get(&from).filter(|one| !one.parts.is_empty()).cloned() {
            self.areas.insert(area, Located { announced: None, ..located });
        }
    }

    /// Whether other nodes have any bytes of a generation.
    pub(crate) fn has(&self, area: Area) -> bool {
        self.areas.get(&area).is_some_and(|located| !located.parts.is_empty())
    }

    /// The bytes of `extent` that other nodes have, in order.
    pub(crate) fn within(&self, area: Area, extent: Extent) -> Vec<(Extent, Holder)> {
        let located = self.areas.get(&area);
        located.into_iter().flat_map(|located| located.parts.within(extent)).collect()
    }

    /// The bytes of `extent` that the node of `peer` has of this generation, and those that other
    /// nodes have, or that one of an earlier generation.
    pub(crate) fn split(&self, area: Area, extent: Extent, peer: Peer) -> [Vec<Extent>; 2] {
        let all = self.within(area, extent).into_iter();
        let (own, others): (Vec<_>, Vec<_>) =
            all.partition(|(_, holder)| *holder == Holder { peer, area });
        [own, others].map(|parts| parts.into_iter().map(|(part, _)| part).collect())
    }

    /// The nodes that have the bytes of `extents`, which are in order and apart: the first `most`
    /// parts. The generation is of `series` now. Whether these are all.
    pub(crate) fn find(
        &self,
        (area, series): (Area, &Series),
        extents: &[Extent],
        most: usize,
    ) -> (Where, bool) {
        let (mut found, mut places) = (Where::default(), BTreeMap::new());
        let located = self.areas.get(&area);
        found.announced = located.is_some_and(|located| located.announced.as_ref() == Some(series));
        for range in extents {
            let there = self.within(area, *range);
            let known: Vec<Extent> = there.iter().map(|(part, _)| *part).collect();
            let here = gaps(*range, &known).into_iter().map(|gap| (gap, None));
            let there = there.into_iter().map(|(part, holder)| (part, Some(holder)));
            let mut all: Vec<(Extent, Option<Holder>)> = here.chain(there).collect();
            all.sort_unstable_by_key(|(part, _)| part.offset);
            for (part, holder) in all {
                if found.parts.len() == most {
                    return (found, false);
                }
                let nodes = &mut found.nodes;
                let place = |holder| {
                    let add = || self.add((area, series), nodes, holder);
                    *places.entry(holder).or_insert_with(add)
                };
                found.parts.push((part, holder.map(place)));
            }
        }
        (found, true)
    }

    /// Adds a holder to `nodes`. Returns its place.
    fn add(
        &self,
        (area, series): (Area, &Series),
        nodes: &mut Vec<Source>,
        holder: Holder,
    ) -> usize {
        let words = self.node(holder).map(Instance::words).unwrap_or_default();
        let located = self.areas.get(&area);
        let reported = located.and_then(|located| located.holders.get(&holder));
        let announced = reported.is_some_and(|one| one.announced.as_ref() == Some(series));
        let report = reported.map_or(0, |one| one.number);
        nodes.push(Source { words, area: holder.area, report, announced });
        nodes.len() - 1
    }

    /// The most bytes of a generation that any other node has.
    pub(crate) fn largest_share(&self, area: Area) -> u64 {
        let mut shares = BTreeMap::<Peer, u64>::new();
        for (part, holder) in self.within(area, ALL) {
            *shares.entry(holder.peer).or_default() += part.len;
        }
        shares.into_values().max().unwrap_or(0)
    }

    /// The nodes that have bytes of a generation.
    pub(crate) fn holders(&self, area: Area) -> BTreeSet<Holder> {
        self.within(area, ALL).into_iter().map(|(_, holder)| holder).collect()
    }

    /// Who the agent of a holder is.
    pub(crate) fn node(&self, holder: Holder) -> Option<&Instance> {
        self.nodes.get(&holder.peer)
    }

    /// The generations of which the node of `peer` has bytes that no other one has.
    pub(crate) fn of(&self, peer: Peer) -> Vec<Area> {
        let has = |located: &Located| located.parts.iter().any(|(_, one)| one.peer == peer);
        self.areas.iter().filter(|(_, located)| has(located)).map(|(area, _)| *area).collect()
    }

    /// Removes a generation. Returns the holders whose bytes no generation has any more.
    pub(crate) fn free(&mut self, area: Area) -> Vec<Holder> {
        let gone = self.areas.remove(&area);
        self.unneeded(gone.into_iter().flat_map(|gone| gone.holders.into_keys()))
    }

    /// A generation is complete. Returns the holders whose bytes it began with, and no generation
    /// has any more.
    pub(crate) fn complete(&mut self, area: Area) -> Vec<Holder> {
        let holders = self.holders(area);
        let Some(located) = self.areas.get_mut(&area) else { return Vec::new() };
        let before = std::mem::take(&mut located.holders);
        located.holders = before.clone();
        located.holders.retain(|holder, _| holders.contains(holder));
        self.unneeded(before.into_keys())
    }

    fn unneeded(&self, holders: impl IntoIterator<Item = Holder>) -> Vec<Holder> {
        let parts = || self.areas.values().flat_map(|located| located.parts.iter());
        let needed: BTreeSet<Holder> = parts().map(|(_, holder)| holder).collect();
        holders.into_iter().filter(|holder| !needed.contains(holder)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Instance {
        Instance::of_words(&format!("{name} 00ff")).unwrap()
    }

    fn series() -> Series {
        b"step.0".to_vec()
    }

    fn holder(peer: u64, area: Area) -> Holder {
        Holder { peer: Peer(peer), area }
    }

    #[test]
    fn the_node_that_wrote_last_has_the_bytes() {
        let mut locations = Locations::default();
        locations.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
        locations.note((7, 1), Peer(2), &node("b"), &[Extent::new(40, 20)]);
        locations.is_here(7, Extent::new(50, 5));
        let found = locations.within(7, Extent::new(30, 40));
        let one = (Extent::new(30, 10), holder(1, 7));
        let two = (Extent::new(40, 10), holder(2, 7));
        let three = (Extent::new(55, 5), holder(2, 7));
        let four = (Extent::new(60, 10), holder(1, 7));
        assert_eq!(found, [one, two, three, four]);
        let [own, others] = locations.split(7, Extent::new(45, 12), Peer(2));
        assert_eq!((own, others), (vec![Extent::new(45, 5), Extent::new(55, 2)], vec![]));
        assert_eq!((locations.largest_share(7), locations.largest_share(9)), (80, 0));
        assert_eq!(locations.holders(7), [holder(1, 7), holder(2, 7)].into());
        locations.inherit(8, 7);
        assert_eq!(locations.split(8, Extent::new(45, 5), Peer(2))[1], [Extent::new(45, 5)]);
        locations.free(8);
        locations.cut(7, 45);
        assert_eq!(locations.within(7, ALL).last(), Some(&(Extent::new(40, 5), holder(2, 7))));
        assert_eq!(locations.of(Peer(2)), [7]);
        locations.cut(7, 0);
        assert!(!locations.has(7) && locations.of(Peer(2)).is_empty());
    }

    #[test]
    fn a_reader_is_told_who_has_each_byte() {
        let mut locations = Locations::default();
        let range = [Extent::new(5, 100)];
        let (own, _) = locations.find((7, &series()), &range, 10);
        assert_eq!((own.nodes.len(), own.parts), (0, vec![(range[0], None)]));
        locations.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 10), Extent::new(90, 5)]);
        locations.note((7, 1), Peer(2), &node("b"), &[Extent::new(20, 10)]);
        let (found, is_all) = locations.find((7, &series()), &range, 6);
        let lens: Vec<_> = found.parts.iter().map(|(part, node)| (part.len, *node)).collect();
        let (a, b) = (Some(0), Some(1));
        assert_eq!(lens, [(5, a), (10, None), (10, b), (60, None), (5, a), (10, None)]);
        assert_eq!(found.nodes[1].words, node("b").words());
        assert!(is_all && !locations.find((7, &series()), &range, 5).1, "there are more parts");
        let two = [Extent::new(0, 5), Extent::new(21, 3)];
        let (found, _) = locations.find((7, &series()), &two, 10);
        assert_eq!(found.parts, [(two[0], a), (two[1], b)]);
        assert!(!found.announced && !found.nodes[0].announced);
        locations.announced(7, None, series());
        locations.announced(7, Some(Peer(1)), series());
        locations.announced(7, Some(Peer(2)), b"of another name".to_vec());
        let (found, _) = locations.find((7, &series()), &two, 10);
        let announced: Vec<bool> = found.nodes.iter().map(|node| node.announced).collect();
        assert!(found.announced && announced == [true, false]);
        let body = found.encode();
        assert_eq!(Where::decode(&body).unwrap(), found);
        let mut hostile = body.clone();
        *hostile.last_mut().unwrap() = 3;
        Where::decode(&hostile).unwrap_err();
        assert!((1..body.len()).any(|len| Where::decode(&body[..len]).is_err()));
    }

    #[test]
    fn bytes_are_kept_until_no_generation_has_them() {
        let mut locations = Locations::default();
        locations.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
        locations.inherit(8, 7);
        locations.note((8, 1), Peer(2), &node("b"), &[Extent::new(0, 10)]);
        assert_eq!(locations.within(8, Extent::new(0, 11)).len(), 2);
        assert_eq!(locations.free(7), []);
        assert_eq!(locations.free(8), [holder(1, 7), holder(2, 8)]);
        locations.inherit(9, 8);
        assert!(!locations.has(9));
    }

    #[test]
    fn bytes_that_were_overwritten_are_kept_for_the_generation_before_only() {
        let mut locations = Locations::default();
        locations.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
        locations.inherit(8, 7);
        locations.note((8, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
        assert_eq!(locations.complete(8), [], "the one before has them");
        assert_eq!(locations.free(7), [holder(1, 7)]);
        locations.inherit(9, 8);
        assert_eq!(locations.free(8), [], "the next one begins with them");
        locations.cut(9, 0);
        assert_eq!(locations.complete(9), [holder(1, 8)]);
        assert_eq!(locations.complete(9), []);
    }
}

//! The nodes that have the parts of a generation that another node owns, as far as a node knows
//! that reads it.

use super::differences::extent;
use super::gaps;
use crate::protocol::{Field, Reader, Writer, bad, fields};
use crate::registry::Area;
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::Peer;
use std::io;

/// A node that has bytes, and the generation to which it wrote them: this one, or an earlier one
/// which gave its bytes to this one.
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

fields!(Source { words, area, report, announced });

impl Where {
    /// The body of a message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut out, mut last) = (Writer::default(), 0);
        self.announced.write(&mut out);
        self.nodes.write(&mut out);
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
    /// `InvalidData` for a body that no agent of this version sends.
    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut from = Reader(body);
        let (announced, nodes): (_, Vec<Source>) = Field::read(&mut from)?;
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

/// The known nodes of one generation.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    nodes: Vec<Source>,
    /// The places of their nodes; `None` for the owner.
    parts: Overlay<Option<usize>>,
    /// Ranges that are to come from unknown nodes.
    waiting: Vec<Extent>,
    /// The owner was asked.
    is_asked: bool,
    /// The owner has announced its bytes to its subscribers.
    announced: bool,
}

impl Sources {
    /// The owner has named nodes. Whether it was news.
    pub(crate) fn note(&mut self, found: Where) -> bool {
        (self.is_asked, self.announced) = (false, found.announced);
        let places: Vec<usize> = found.nodes.into_iter().map(|node| self.place(node)).collect();
        for (part, node) in &found.parts {
            self.parts.put(*part, node.map(|node| places[node]));
        }
        !found.parts.is_empty()
    }

    fn place(&mut self, node: Source) -> usize {
        self.nodes.iter().position(|one| *one == node).unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    /// Whether the owner has announced its bytes to its subscribers.
    pub(crate) fn are_announced(&self) -> bool {
        self.announced
    }

    /// The node with this place.
    pub(crate) fn node(&self, place: usize) -> Option<&Source> {
        self.nodes.get(place)
    }

    /// The parts of a range, and the places of their nodes.
    pub(crate) fn of(&self, range: Extent) -> Vec<(Extent, Option<usize>)> {
        self.parts.within(range).collect()
    }

    fn unknown(&self, range: Extent) -> Vec<Extent> {
        let known: Vec<Extent> = self.parts.within(range).map(|(part, _)| part).collect();
        gaps(range, &known)
    }

    /// These ranges are to come.
    pub(crate) fn want(&mut self, ranges: Vec<Extent>) {
        self.waiting.extend(ranges);
    }

    /// The ranges among those with known nodes, which do not wait any more.
    pub(crate) fn known(&mut self) -> Vec<Extent> {
        let (known, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|range| self.unknown(*range).is_empty());
        self.waiting = waiting;
        known
    }

    /// The places that the owner is to be asked for now, in order.
    pub(crate) fn ask(&mut self) -> Vec<Extent> {
        if self.is_asked {
            return Vec::new();
        }
        let gaps = self.waiting.iter().flat_map(|range| self.unknown(*range));
        let mut places: Vec<Extent> = gaps.collect();
        places.sort_unstable_by_key(|place| place.offset);
        self.is_asked = !places.is_empty();
        places
    }

    /// The ranges with unknown nodes do not come.
    pub(crate) fn give_up(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(node: &str, parts: &[(Extent, Option<usize>)]) -> Where {
        let source = |words: &str, area| Source { words: words.into(), area, ..Source::default() };
        let (nodes, parts) = (vec![source("a", 1), source(node, 7)], parts.to_vec());
        Where { announced: false, nodes, parts }
    }

    #[test]
    fn the_owner_is_asked_once_for_what_is_not_known() {
        let mut sources = Sources::default();
        sources.note(found("b", &[(Extent::new(10, 10), Some(1)), (Extent::new(20, 5), None)]));
        sources.want(vec![Extent::new(12, 10), Extent::new(22, 10), Extent::new(0, 11)]);
        assert_eq!(sources.known(), [Extent::new(12, 10)]);
        assert_eq!(sources.ask(), [Extent::new(0, 10), Extent::new(25, 7)]);
        assert_eq!(sources.ask(), [], "it was asked");
        assert!(sources.note(found("c", &[(Extent::new(0, 10), Some(1))])));
        assert_eq!(sources.known(), [Extent::new(0, 11)]);
        assert_eq!(sources.ask(), [Extent::new(25, 7)], "it has not told all");
        assert!(!sources.note(Where::default()));
        assert_eq!((sources.known(), sources.give_up()), (vec![], vec![Extent::new(22, 10)]));
        let parts = sources.of(Extent::new(8, 4));
        assert_eq!(parts, [(Extent::new(8, 2), Some(2)), (Extent::new(10, 2), Some(1))]);
        assert_eq!(sources.node(2).map(|node| node.words.as_str()), Some("c"));
    }
}

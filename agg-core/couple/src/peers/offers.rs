//! What other nodes will probably read: the next complete generation of a series of files, of
//! which they have read one.

use crate::registry::{Area, Series};
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};

/// Generations of a series that a node was offered and has not opened, at most.
const UNOPENED: usize = 2;

/// Series with known readers, at most.
const SERIES: usize = 256;

/// The nodes that read each series, and the offers that they have not opened yet.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    readers: BTreeMap<Series, BTreeMap<Peer, BTreeSet<Area>>>,
}

impl Offers {
    /// A node has opened a complete generation for reading.
    pub(crate) fn opened(&mut self, series: Series, peer: Peer, area: Area) {
        if self.readers.len() < SERIES || self.readers.contains_key(&series) {
            self.readers.entry(series).or_default().entry(peer).or_default().remove(&area);
        }
    }

    /// A generation is complete: the nodes that it is to be offered to.
    pub(crate) fn complete(&mut self, series: &Series, area: Area) -> Vec<Peer> {
        let readers = self.readers.get_mut(series);
        let all = readers.into_iter().flatten();
        let willing = all.filter(|(_, unopened)| unopened.len() < UNOPENED);
        let told = willing.map(|(peer, unopened)| {
            unopened.insert(area);
            *peer
        });
        told.collect()
    }

    /// A generation is given up. Nodes that it was offered to and that have not opened it do not
    /// read the series any more, as far as one can see.
    pub(crate) fn free(&mut self, area: Area) {
        for readers in self.readers.values_mut() {
            readers.retain(|_, unopened| !unopened.contains(&area));
        }
        self.readers.retain(|_, readers| !readers.is_empty());
    }

    /// No process of this node is interested in anything any more.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.readers.values_mut().for_each(|readers| _ = readers.remove(&peer));
        self.readers.retain(|_, readers| !readers.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Peer = Peer(1);
    const OTHER: Peer = Peer(2);

    #[test]
    fn a_node_that_has_read_one_generation_is_offered_the_next_ones_of_the_series() {
        let (mut offers, series) = (Offers::default(), b"step.0".to_vec());
        assert_eq!(offers.complete(&series, 1), [], "nobody has read any");
        offers.opened(series.clone(), NODE, 1);
        assert_eq!(offers.complete(&b"other.0".to_vec(), 2), []);
        assert_eq!(offers.complete(&series, 3), [NODE]);
        offers.opened(series.clone(), OTHER, 3);
        assert_eq!(offers.complete(&series, 4), [NODE, OTHER]);
        assert_eq!(offers.complete(&series, 5), [OTHER], "two were not opened");
        offers.opened(series.clone(), NODE, 3);
        assert_eq!(offers.complete(&series, 6), [NODE]);
    }

    #[test]
    fn a_node_that_has_not_opened_what_it_was_offered_is_offered_no_more() {
        let (mut offers, series) = (Offers::default(), b"step.0".to_vec());
        for peer in [NODE, OTHER] {
            offers.opened(series.clone(), peer, 1);
        }
        assert_eq!(offers.complete(&series, 2), [NODE, OTHER]);
        offers.opened(series.clone(), NODE, 2);
        offers.free(2);
        assert_eq!(offers.complete(&series, 3), [NODE]);
        offers.forget(NODE);
        assert_eq!(offers.complete(&series, 4), []);
    }
}

//! Which ranks run on one node.

use std::collections::HashMap;
use std::hash::Hash;

/// The node of every rank. Ranks of one node can open each other's descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The number of each rank's node.
    of: Vec<u32>,
    /// The lowest rank of each node.
    first: Vec<usize>,
    /// The number of ranks of each node.
    sizes: Vec<usize>,
}

impl Nodes {
    /// Ranks with equal names share a node; a rank without a name is alone.
    pub fn by_name<N: Hash + Eq>(names: impl IntoIterator<Item = Option<N>>) -> Self {
        let (mut known, mut of) = (HashMap::new(), Vec::new());
        let (mut first, mut sizes): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (rank, name) in names.into_iter().enumerate() {
            let next = first.len() as u32;
            let node = name.map_or(next, |name| *known.entry(name).or_insert(next));
            if node == next {
                first.push(rank);
                sizes.push(0);
            }
            sizes[node as usize] += 1;
            of.push(node);
        }
        Self { of, first, sizes }
    }

    /// The number of `rank`'s node: nodes are counted in the order of their lowest ranks.
    pub fn of(&self, rank: usize) -> u32 {
        self.of[rank]
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.of.len()
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.first.len()
    }

    /// The lowest rank of `rank`'s node.
    pub fn first_beside(&self, rank: usize) -> usize {
        self.first[self.of[rank] as usize]
    }

    /// Whether no other rank runs on `rank`'s node.
    pub fn is_alone(&self, rank: usize) -> bool {
        self.sizes[self.of[rank] as usize] == 1
    }

    /// The ranks of `rank`'s node, in order.
    pub fn beside(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        let node = self.of[rank];
        (0..self.of.len()).filter(move |other| self.of[*other] == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_by_their_lowest_ranks_and_the_nameless_are_alone() {
        let nodes = Nodes::by_name([Some("b"), None, Some("a"), None, Some("b")]);
        assert_eq!((0..5).map(|rank| nodes.of(rank)).collect::<Vec<_>>(), [0, 1, 2, 3, 0]);
        assert_eq!((nodes.size(), nodes.count()), (5, 4));
        assert_eq!(nodes.first_beside(4), 0);
        assert_eq!((nodes.is_alone(0), nodes.is_alone(2)), (false, true));
        assert_eq!(nodes.beside(0).collect::<Vec<_>>(), [0, 4]);
        assert_eq!(nodes.beside(3).collect::<Vec<_>>(), [3]);
    }
}

//! The ranks of all nodes, in the order of the nodes.

use crate::transport::Nodes;

/// The ranks of all nodes, as one rank sees them. Nodes are numbered in the order of their lowest
/// ranks.
#[derive(Debug)]
pub struct Map {
    /// The node of each rank.
    of: Vec<usize>,
    /// The ranks, node after node, ascending in each.
    ranks: Vec<usize>,
    /// Where each node's ranks begin in `ranks`, and where the last one's end.
    starts: Vec<usize>,
    leaders: Vec<usize>,
    node: usize,
    index: usize,
}

impl Map {
    /// The ranks on `nodes`, as rank `rank` sees them.
    pub fn new(nodes: &Nodes, rank: usize) -> Self {
        let of: Vec<usize> = (0..nodes.size()).map(|rank| nodes.of(rank) as usize).collect();
        let mut ranks: Vec<usize> = (0..of.len()).collect();
        ranks.sort_by_key(|rank| of[*rank]);
        let first = |node: usize| ranks.partition_point(|rank| of[*rank] < node);
        let starts: Vec<usize> = (0..=nodes.count()).map(first).collect();
        let leaders = starts[..nodes.count()].iter().map(|start| ranks[*start]).collect();
        let node = of[rank];
        let members = &ranks[starts[node]..starts[node + 1]];
        let index = members.partition_point(|member| *member < rank);
        Self { of, ranks, starts, leaders, node, index }
    }

    /// The node of `rank`.
    #[inline]
    pub fn node_of(&self, rank: usize) -> usize {
        self.of[rank]
    }

    /// The ranks of `node`, ascending.
    #[inline]
    pub fn members_of(&self, node: usize) -> &[usize] {
        &self.ranks[self.starts[node]..self.starts[node + 1]]
    }

    /// The lowest rank of each node.
    pub(crate) fn leaders(&self) -> &[usize] {
        &self.leaders
    }

    /// This rank's node.
    #[inline]
    pub fn node(&self) -> usize {
        self.node
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.members()[self.index]
    }

    /// The ranks of this rank's node, ascending.
    #[inline]
    pub fn members(&self) -> &[usize] {
        self.members_of(self.node)
    }

    /// This rank's place among its node's members.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether there are ranks on other nodes.
    #[inline]
    pub fn has_others(&self) -> bool {
        self.leaders.len() > 1
    }

    /// Ranks of the node that has most.
    pub(crate) fn most(&self) -> usize {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_lowest_ranks_and_know_their_members() {
        let map = Map::new(&Nodes::by_name([7, 3, 7, 7, 9, 3].map(Some)), 3);
        assert_eq!((0..6).map(|rank| map.node_of(rank)).collect::<Vec<_>>(), [0, 1, 0, 0, 2, 1]);
        let members: Vec<&[usize]> = (0..3).map(|node| map.members_of(node)).collect();
        assert_eq!(members, [&[0, 2, 3][..], &[1, 5], &[4]]);
        assert_eq!(map.leaders(), [0, 1, 4]);
        assert_eq!((map.node(), map.index(), map.most()), (0, 2, 3));
        assert_eq!((map.rank(), map.members(), map.has_others()), (3, &[0, 2, 3][..], true));
    }
}

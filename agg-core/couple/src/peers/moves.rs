//! Generations of this node that move to a directory: each node moves the bytes that it has.

use super::Holder;
use crate::registry::Area;
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

/// One generation on its way.
#[derive(Debug)]
struct Move {
    /// The nodes that have not answered.
    left: BTreeSet<Holder>,
    /// The number of the first error of another node.
    failed: Option<i32>,
    /// The file with the bytes of this node, once it is made.
    own: Option<io::Result<OwnedFd>>,
}

/// All generations on their way.
#[derive(Debug, Default)]
pub(crate) struct Moves(BTreeMap<Area, Move>);

impl Moves {
    /// A generation moves, of which these nodes have bytes as well.
    pub(crate) fn begin(&mut self, area: Area, left: BTreeSet<Holder>) {
        self.0.insert(area, Move { left, failed: None, own: None });
    }

    /// This node has moved its bytes, or could not.
    pub(crate) fn own(&mut self, area: Area, result: io::Result<OwnedFd>) {
        if let Some(one) = self.0.get_mut(&area) {
            one.own = Some(result);
        }
    }

    /// A node has answered: the number of its error, or 0.
    pub(crate) fn hear(&mut self, holder: Holder, error: i32) {
        for one in self.0.values_mut() {
            if one.left.remove(&holder) && error != 0 {
                one.failed.get_or_insert(error);
            }
        }
    }

    /// A node has ended, and its bytes are lost.
    pub(crate) fn lose(&mut self, peer: Peer) {
        self.0.values_mut().for_each(|one| one.left.retain(|holder| holder.peer != peer));
    }

    /// A generation that has moved, or could not, on all nodes.
    pub(crate) fn next(&mut self) -> Option<(Area, io::Result<OwnedFd>)> {
        let is_over = |one: &Move| one.left.is_empty() && one.own.is_some();
        let area = self.0.iter().find(|(_, one)| is_over(one)).map(|(area, _)| *area)?;
        let one = self.0.remove(&area)?;
        let failed = one.failed.map(|number| Err(io::Error::from_raw_os_error(number)));
        Some((area, failed.or(one.own)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn holders() -> BTreeSet<Holder> {
        [1, 2].map(|peer| Holder { peer: Peer(peer), area: 7 }).into()
    }

    fn file() -> io::Result<OwnedFd> {
        File::open("/dev/null").map(OwnedFd::from)
    }

    #[test]
    fn a_generation_has_moved_when_all_nodes_have_moved_their_bytes() {
        let mut moves = Moves::default();
        moves.begin(9, holders());
        moves.own(9, file());
        moves.hear(Holder { peer: Peer(1), area: 7 }, 0);
        assert!(moves.next().is_none());
        moves.hear(Holder { peer: Peer(2), area: 8 }, 0);
        assert!(moves.next().is_none(), "that was another one");
        moves.lose(Peer(2));
        assert!(matches!(moves.next(), Some((9, Ok(_)))));
        assert!(moves.next().is_none());
    }

    #[test]
    fn a_directory_that_is_full_on_one_node_takes_no_generation() {
        let mut moves = Moves::default();
        moves.begin(9, holders());
        moves.hear(Holder { peer: Peer(1), area: 7 }, libc::ENOSPC);
        moves.hear(Holder { peer: Peer(2), area: 7 }, 0);
        assert!(moves.next().is_none(), "the bytes of this node are on their way");
        moves.own(9, file());
        let Some((9, Err(error))) = moves.next() else { panic!("it has moved") };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}

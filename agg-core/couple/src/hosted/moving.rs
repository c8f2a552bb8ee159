//! A generation that moves to a directory: each node moves the bytes that it has.

use crate::peers::Holder;
use aggio_link::Peer;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

/// One generation on its way.
#[derive(Debug)]
pub(super) struct Moving {
    /// The nodes that have not answered.
    left: BTreeSet<Holder>,
    /// The number of the first error of another node.
    failed: Option<i32>,
    /// The file with the bytes of this node, once it is made.
    own: Option<io::Result<OwnedFd>>,
}

impl Moving {
    /// These nodes have bytes as well.
    pub(super) fn begin(left: BTreeSet<Holder>) -> Self {
        Self { left, failed: None, own: None }
    }

    /// This node has moved its bytes, or could not.
    pub(super) fn own(&mut self, result: io::Result<OwnedFd>) {
        self.own = Some(result);
    }

    /// A node has answered: the number of its error, or 0.
    pub(super) fn hear(&mut self, holder: Holder, error: i32) {
        if self.left.remove(&holder) && error != 0 {
            self.failed.get_or_insert(error);
        }
    }

    /// A node has ended, and its bytes are lost.
    pub(super) fn lose(&mut self, peer: Peer) {
        self.left.retain(|holder| holder.peer != peer);
    }

    /// Whether all nodes have answered.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_empty() && self.own.is_some()
    }

    /// The file with the bytes of this node, unless a node has failed; `None` before it is made.
    pub(super) fn result(self) -> Option<io::Result<OwnedFd>> {
        let failed = self.failed.map(|number| Err(io::Error::from_raw_os_error(number)));
        failed.or(self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn moving() -> Moving {
        Moving::begin([1, 2].map(|peer| Holder { peer: Peer(peer), area: 7 }).into())
    }

    fn file() -> io::Result<OwnedFd> {
        File::open("/dev/null").map(OwnedFd::from)
    }

    #[test]
    fn a_generation_has_moved_when_all_nodes_have_moved_their_bytes() {
        let mut moving = moving();
        moving.own(file());
        moving.hear(Holder { peer: Peer(1), area: 7 }, 0);
        moving.hear(Holder { peer: Peer(2), area: 8 }, 0);
        assert!(!moving.is_over(), "that was another one");
        moving.lose(Peer(2));
        assert!(moving.is_over() && matches!(moving.result(), Some(Ok(_))));
    }

    #[test]
    fn a_directory_that_is_full_on_one_node_takes_no_generation() {
        let mut moving = moving();
        moving.hear(Holder { peer: Peer(1), area: 7 }, libc::ENOSPC);
        moving.hear(Holder { peer: Peer(2), area: 7 }, 0);
        assert!(!moving.is_over(), "the bytes of this node are on their way");
        moving.own(file());
        let Some(Err(error)) = moving.result() else { panic!("it has moved") };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}

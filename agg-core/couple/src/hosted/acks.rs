//! Acknowledgements of other nodes, and the actions that wait for them.

use aggio_link::Peer;
use std::collections::BTreeMap;

/// The acknowledgements that one generation awaits.
#[derive(Debug)]
pub(super) struct Acks<T> {
    /// Messages that each node has not acknowledged.
    left: BTreeMap<Peer, u32>,
    after: Vec<T>,
}

impl<T> Default for Acks<T> {
    fn default() -> Self {
        Self { left: BTreeMap::new(), after: Vec::new() }
    }
}

impl<T> Acks<T> {
    /// A node will acknowledge one more message.
    pub(super) fn expect(&mut self, peer: Peer) {
        *self.left.entry(peer).or_default() += 1;
    }

    /// It has acknowledged one.
    pub(super) fn hear(&mut self, peer: Peer) {
        if let Some(count) = self.left.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.left.remove(&peer);
            }
        }
    }

    /// A node has ended, and acknowledges nothing.
    pub(super) fn lose(&mut self, peer: Peer) {
        self.left.remove(&peer);
    }

    /// The generation is freed: nothing is awaited.
    pub(super) fn end(&mut self) {
        self.left.clear();
    }

    /// An action follows the last acknowledgement.
    pub(super) fn hold(&mut self, after: T) {
        self.after.push(after);
    }

    pub(super) fn are_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The actions, in their order.
    pub(super) fn into_actions(self) -> Vec<T> {
        self.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_follow_when_each_node_has_acknowledged_each_message_or_has_ended() {
        let mut acks = Acks::default();
        [Peer(1), Peer(1), Peer(2)].into_iter().for_each(|peer| acks.expect(peer));
        acks.hold("first");
        acks.hear(Peer(1));
        acks.hear(Peer(3));
        acks.lose(Peer(2));
        assert!(!acks.are_over());
        acks.hear(Peer(1));
        acks.hold("second");
        assert!(acks.are_over());
        assert_eq!(acks.into_actions(), ["first", "second"]);
    }
}

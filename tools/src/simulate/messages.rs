//! The communication of aggio's ranks: the senders of data, and messages without data. Must be
//! changed with the engine.

use super::Setting;
use super::traffic::Senders;
use super::work::Call;
use agg_core::Extent;
use agg_core::plan::{Domains, Summary, Way};

/// Bytes of a collective step that travel with their length (`agg_core::group`).
const FIRST: u64 = 1016;

/// Bytes that a node contributes to a meeting (`agg_core::meeting`).
const BROUGHT: u64 = 64;

/// Bytes that an aggregator keeps of another rank's request, besides the view.
const PEER: u64 = 128;

/// Messages without data, and the memory that a rank needs for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Talk {
    /// Messages.
    pub(crate) messages: u64,
    /// Steps that wait for a message, one after the other.
    pub(crate) steps: u64,
    /// Bytes on the rank that keeps most.
    pub(crate) state: u64,
}

impl Talk {
    /// Adds later messages.
    pub(crate) fn add(&mut self, later: Talk) {
        self.messages += later.messages;
        self.steps += later.steps;
        self.state += later.state;
    }
}

/// How the data of a two-phase call travels; `dense` says whether windows of shared memory would
/// not be nearly empty.
pub(crate) fn way(setting: &Setting<'_>, dense: bool) -> Way {
    match (dense, setting.nodes) {
        (false, _) => Way::Messages,
        (true, 1) => Way::Memory,
        (true, _) => Way::Nodes,
    }
}

/// The senders of data.
pub(crate) fn senders(way: Way) -> Senders {
    match way {
        Way::Memory | Way::Nodes => Senders::Nodes,
        Way::Messages | Way::Independent => Senders::Ranks,
    }
}

/// Depth of a tree of `n` members.
pub(crate) fn depth(n: u64) -> u64 {
    u64::from(n.next_power_of_two().ilog2())
}

/// Messages for `bytes` if the receiver does not have their number.
fn framed(bytes: u64) -> u64 {
    1 + u64::from(bytes > FIRST)
}

/// Messages of a step in which all of `members` exchange `bytes`.
fn gathering(members: u64, bytes: u64) -> u64 {
    let distances = (0..depth(members)).map(|round| 1 << round);
    let lengths = distances.map(|distance: u64| distance.min(members - distance) * bytes);
    members * lengths.map(framed).sum::<u64>()
}

/// The ranks of each node meet in its memory; the first of each node wait for their turn, exchange
/// the contributions of their nodes, and agree on the result.
pub(crate) fn meeting(setting: &Setting<'_>) -> Talk {
    let nodes = setting.nodes;
    // A summary for each rank of the node, the part of the file for each node, and of both the
    // sorted starts and ends.
    let (summary, span) = (size_of::<Summary>() as u64, size_of::<Extent>() as u64);
    let state = setting.ranks_of_node() * (summary + span) + nodes * 2 * span;
    if nodes == 1 {
        return Talk { state, ..Talk::default() };
    }
    let (turn, agreement) = (nodes - 1, nodes * depth(nodes));
    let messages = turn + gathering(nodes, BROUGHT) + agreement;
    Talk { messages, steps: 3 * depth(nodes), state }
}

/// If data does not go through the memory of nodes, each rank has to receive the requests of all
/// others.
pub(crate) fn everybody(setting: &Setting<'_>) -> Talk {
    if setting.nodes == 1 {
        return Talk::default();
    }
    Talk {
        messages: gathering(setting.ranks, Summary::WIRE_BYTES as u64),
        steps: depth(setting.ranks),
        state: setting.ranks * size_of::<Summary>() as u64,
    }
}

/// Every rank sends its view to the aggregators of the domains that it may have bytes in.
pub(crate) fn headers(call: &Call, domains: &Domains, aggregators: &[usize]) -> Talk {
    let mut pairs = 0;
    // How many ranks more than the domain before each domain has: a rank may touch all.
    let mut changes = vec![0i64; domains.count() + 1];
    for part in call.all.iter().filter(|part| part.bytes > 0) {
        let touched = domains.touched_by(part.span);
        pairs += touched.len() as u64;
        changes[touched.start] += 1;
        changes[touched.end] -= 1;
    }
    let own = aggregators.iter().take(domains.count()).enumerate().filter(|(domain, rank)| {
        let part = &call.all[**rank];
        part.bytes > 0 && domains.touched_by(part.span).contains(domain)
    });
    let peers = changes.iter().scan(0, |peers, change| {
        *peers += change;
        Some(*peers as u64)
    });
    let most = peers.max().unwrap_or(0);
    Talk {
        messages: (pairs - own.count() as u64) * framed(16 + call.header_bytes),
        steps: 1,
        state: most * (PEER + call.view_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_as_deep_as_their_members_need() {
        assert_eq!([1, 2, 3, 4, 5, 1024, 100_000].map(depth), [0, 1, 2, 2, 3, 10, 17]);
    }
}

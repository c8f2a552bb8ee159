//! Which ranks open a file by name: the first one, and one of each further node that has an
//! aggregator. The others take the descriptor of their node's opener when they need the file.
//!
//! A node may not see the file at all. If no hint names the aggregators, such a node has none; its
//! ranks take part in collective operations all the same.

use aggio_base::error::{Error, Result};
use aggio_comm::group;
use aggio_comm::transport::{Nodes, Transport};
use std::collections::HashSet;

/// The ranks that open the file by name, the `leader` first.
pub(super) fn openers(nodes: &Nodes, leader: usize, aggregators: &[usize]) -> Vec<usize> {
    let mut seen = HashSet::from([nodes.of(leader)]);
    let further = aggregators.iter().copied().filter(|rank| seen.insert(nodes.of(*rank)));
    std::iter::once(leader).chain(further).collect()
}

/// The opener of `rank`'s node.
pub(super) fn opener_beside(nodes: &Nodes, openers: &[usize], rank: usize) -> Option<usize> {
    openers.iter().copied().find(|opener| nodes.of(*opener) == nodes.of(rank))
}

/// Whether `rank` may be the first to open the file, if rank 0 does not see it: one of each node,
/// an aggregator if those are `named`.
pub(super) fn is_candidate(nodes: &Nodes, named: Option<&[usize]>, rank: usize) -> bool {
    match named {
        Some(named) => opener_beside(nodes, named, rank) == Some(rank),
        None => nodes.first_beside(rank) == rank,
    }
}

/// The lowest rank that `sees` the file; `None` if none does. Collective.
pub(super) async fn lowest_seer(
    transport: &dyn Transport,
    tag: u32,
    sees: bool,
) -> Result<Option<usize>> {
    let mine = if sees { transport.rank() as u64 } else { u64::MAX };
    let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
    let least = |a: &[u8], b: &[u8]| number(a).min(number(b)).to_le_bytes().to_vec();
    let least = group::allreduce(transport, tag, mine.to_le_bytes().to_vec(), least).await?;
    Ok(usize::try_from(number(&least)).ok().filter(|rank| *rank < transport.size()))
}

/// The ranks that do not see the file, in order. Collective.
///
/// # Errors
/// On every rank that of the lowest rank with another reason.
pub(super) async fn blind_ranks(
    transport: &dyn Transport,
    tag: u32,
    mine: Result<bool>,
) -> Result<Vec<usize>> {
    let rank = transport.rank();
    let mut words = vec![0];
    match mine {
        Ok(true) => {}
        Ok(false) => words.extend((rank as u64).to_le_bytes()),
        Err(error) => words = [&[1][..], &error.with_rank(rank).to_bytes()].concat(),
    }
    let all = group::allreduce(transport, tag, words, |left, right| match (left, right) {
        ([1, ..], _) => left.to_vec(),
        (_, [1, ..]) => right.to_vec(),
        _ => [left, right.get(1..).unwrap_or_default()].concat(),
    });
    match all.await?.split_first() {
        Some((0, ranks)) => Ok(ranks
            .chunks_exact(8)
            .map(|word| {
                word.try_into().map_or(usize::MAX, |word| u64::from_le_bytes(word) as usize)
            })
            .collect()),
        Some((_, error)) => Err(Error::from_bytes(error).unwrap_or_else(damaged)),
        None => Err(damaged()),
    }
}

fn damaged() -> Error {
    Error::new(aggio_base::ErrorClass::Intern, "a message between ranks is damaged")
}

/// Leaves out the nodes of the `blind` ranks; without an aggregator the leader is one.
pub(super) fn leave_out(
    nodes: &Nodes,
    blind: &[usize],
    leader: usize,
    aggregators: &mut Vec<usize>,
) {
    let out: HashSet<u32> = blind.iter().map(|rank| nodes.of(*rank)).collect();
    aggregators.retain(|rank| !out.contains(&nodes.of(*rank)));
    if aggregators.is_empty() {
        aggregators.push(leader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_base::ErrorClass;
    use aggio_comm::transport::threads::testing::run;

    fn nodes(names: &str) -> Nodes {
        Nodes::by_name(names.split(' ').map(Some))
    }

    #[test]
    fn the_leader_and_one_aggregator_of_each_further_node_open_the_file() {
        let nodes = nodes("a a b b c c");
        assert_eq!(openers(&nodes, 0, &[0, 1, 3, 2, 5]), [0, 3, 5]);
        assert_eq!(openers(&nodes, 1, &[0]), [1]);
        assert_eq!(openers(&nodes, 4, &[0, 2]), [4, 0, 2]);
        assert_eq!(opener_beside(&nodes, &[4, 0], 5), Some(4));
        assert_eq!(opener_beside(&nodes, &[4, 0], 2), None);
    }

    #[test]
    fn one_rank_of_each_node_may_be_first_or_only_named_ones() {
        let nodes = nodes("a a b b c c");
        let candidates = |named: Option<&[usize]>| -> Vec<usize> {
            (0..6).filter(|rank| is_candidate(&nodes, named, *rank)).collect()
        };
        assert_eq!(candidates(None), [0, 2, 4]);
        assert_eq!(candidates(Some(&[3, 2, 5])), [3, 5]);
    }

    #[test]
    fn a_node_that_is_blind_has_no_aggregators() {
        let nodes = nodes("a a b b c c");
        let mut aggregators = vec![0, 2, 4, 1];
        leave_out(&nodes, &[2], 0, &mut aggregators);
        assert_eq!(aggregators, [0, 4, 1]);
        leave_out(&nodes, &[0, 5], 3, &mut aggregators);
        assert_eq!(aggregators, [3]);
    }

    #[test]
    fn all_ranks_hear_who_is_blind_and_who_has_another_reason() {
        let all = run(5, |transport| {
            Box::pin(async move {
                let rank = transport.rank();
                let blind = blind_ranks(&*transport, 0, Ok(rank % 2 == 0)).await;
                let full = || Err(Error::new(ErrorClass::NoMem, "x"));
                let mine = if rank > 2 { full() } else { Ok(rank == 0) };
                let failed = blind_ranks(&*transport, 1, mine).await.expect_err("an error");
                let seers = [rank == 3, rank > 1, false];
                let mut lowest = Vec::new();
                for (n, sees) in (2..).zip(seers) {
                    lowest.push(lowest_seer(&*transport, n, sees).await);
                }
                (blind, failed.rank(), lowest)
            })
        });
        let lowest = vec![Ok(Some(3)), Ok(Some(2)), Ok(None)];
        assert_eq!(all, vec![(Ok(vec![1, 3]), Some(3), lowest); 5]);
    }
}

//! The cost of matching one generation, determined by a simulation.

use crate::{Digest, Full, Matcher, Order, Run, Shards};
use std::collections::BTreeMap;

/// Messages of one step, and memory, of the agent that has most of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Agents that match.
    pub matchers: u32,
    /// Bytes of a block.
    pub block: u64,
    /// Matching messages that one agent sends and receives for a new pattern.
    pub matching: u64,
    /// The same for a pattern that repeats.
    pub repeated: u64,
    /// Other agents that one agent sends file bytes to or gets them from.
    pub partners: u64,
    /// Bytes of one agent's index.
    pub index: u64,
    /// Bytes that are requested and found, of all agents.
    pub found: u64,
}

/// Simulates one generation that agents write and read; `writes` and `reads` have the runs of each
/// agent's ranks. A message of an agent to itself does not count.
///
/// # Errors
/// If an index would be larger than [`Matcher::MOST`].
pub fn forecast(shards: Shards, writes: &[Vec<Run>], reads: &[Vec<Run>]) -> Result<Forecast, Full> {
    let agents = writes.len().max(reads.len()).max(shards.matchers() as usize);
    let mut messages = vec![0_u64; agents];
    let mut tell = |from: usize, to: u32, count: u64| {
        if from != to as usize {
            messages[from] += count;
            messages[to as usize] += count;
        }
    };
    let mut index: Vec<Matcher> =
        (0..shards.matchers()).map(|_| Matcher::new(Matcher::MOST)).collect();
    for (agent, runs) in writes.iter().enumerate() {
        for (matcher, part) in shards.split(runs) {
            tell(agent, matcher, 1);
            let order = Order { sequence: 0, rank: agent as u32 };
            index[matcher as usize].write(agent as u32, order, &part)?;
        }
    }
    let mut partners: Vec<BTreeMap<usize, ()>> = vec![BTreeMap::new(); agents];
    let mut bytes = 0;
    for (agent, runs) in reads.iter().enumerate() {
        for (matcher, part) in shards.split(runs) {
            // A question and its answer.
            tell(agent, matcher, 2);
            for found in index[matcher as usize].find(&part) {
                bytes += found.runs.iter().map(Run::bytes).sum::<u64>();
                let source = found.source as usize;
                if source != agent {
                    partners[agent].insert(source, ());
                    partners[source].insert(agent, ());
                }
            }
        }
    }
    let most = |values: &mut dyn Iterator<Item = u64>| values.max().unwrap_or(0);
    Ok(Forecast {
        matchers: shards.matchers(),
        block: shards.block(),
        matching: most(&mut messages.iter().copied()),
        // Writers push by known routes; no requests are sent.
        repeated: repeated(writes, reads),
        partners: most(&mut partners.iter().map(|all| all.len() as u64)),
        index: most(&mut index.iter().map(|matcher| matcher.bytes() as u64)),
        found: bytes,
    })
}

/// Matching messages of a second generation with the same extents: none, if the digests are the
/// same again.
fn repeated(writes: &[Vec<Run>], reads: &[Vec<Run>]) -> u64 {
    let side = |side: &[Vec<Run>]| -> BTreeMap<u32, Digest> {
        (0..).zip(side.iter().map(|runs| Digest::of(runs))).collect()
    };
    let mut replay = crate::Replay::default();
    replay.complete(&side(writes));
    replay.read(&side(reads));
    replay.learn(&side(reads), Vec::new());
    match replay.complete(&side(writes)) {
        crate::Decision::Push(_) if replay.read(&side(reads)) => 0,
        _ => 1,
    }
}

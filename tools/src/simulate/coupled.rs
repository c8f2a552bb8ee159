//! The costs of a coupled file for the nodes of two jobs: the map of its owner, and the fetches
//! between nodes (docs/decisions/owners-hold-generations.md).

use super::machine::Machine;
use super::show::{bytes, grouped};
use super::{Arguments, engine};
use crate::columns;
use agg_core::Extent;
use agg_core::overlay::Overlay;
use aggio_patterns::{Entry, Pattern};
use serde_json::json;
use std::collections::BTreeMap;

/// Extents of all ranks together at most: each of them is walked.
const MOST_EXTENTS: u64 = 1 << 24;
/// Bytes of a part in the map of the owner, as measured with a million parts.
const PART: u64 = 73;
/// A node asks another one for so many bytes at a time.
const FETCH: u64 = 32 << 20;
/// The answer to an open has a map of at most so many parts. Readers ask for those of a larger one
/// when they read.
const FEW_PARTS: usize = 1000;

const HEADING: [&str; 9] = [
    "writers",
    "readers",
    "nodes",
    "messages",
    "parts",
    "map",
    "partners",
    "fetches",
    "bytes read",
];

/// The costs of one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Forecast {
    /// Messages that the owner sends and receives: reports of other nodes about their writes,
    /// opens, questions for parts of a large map, and answers.
    messages: u64,
    /// Parts in the map of the owner.
    parts: u64,
    /// Nodes that one node fetches from, at most.
    partners: u64,
    /// Requests for bytes that one node sends, at most. It sends none for the next generation if
    /// it reads the same places: writers push their bytes.
    fetches: u64,
    /// Bytes that are read, of all nodes.
    read: u64,
}

/// One pattern for one number of writers and one of readers.
struct Case {
    writers: u64,
    readers: u64,
    nodes: u64,
    forecast: Forecast,
}

impl Arguments {
    /// The answer for readers of the bytes that the ranks write; each side has nodes of its own.
    pub(super) fn coupled(
        &self,
        machines: &[(String, Machine)],
        entries: &[Entry],
    ) -> Result<String, String> {
        let (mut text, mut all) = (String::new(), Vec::new());
        for (name, machine) in machines {
            for entry in entries {
                let of_entry = |why| format!("{}: {why}", entry.name);
                let cases = self.cases(machine, &entry.pattern).map_err(of_entry)?;
                if self.json {
                    all.extend(cases.iter().map(|case| {
                        let forecast = &case.forecast;
                        json!({
                            "machine": name, "pattern": entry.name,
                            "writers": case.writers, "readers": case.readers,
                            "nodes": case.nodes, "owner_messages": forecast.messages,
                            "owner_parts": forecast.parts, "owner_bytes": forecast.parts * PART,
                            "partners": forecast.partners, "fetches": forecast.fetches,
                            "read_bytes": forecast.read,
                        })
                    }));
                    continue;
                }
                let gap = if text.is_empty() { "" } else { "\n" };
                text.push_str(&format!("{gap}{} coupled on {name}\n", entry.name));
                let mut rows = vec![HEADING.map(str::to_uppercase).to_vec()];
                rows.extend(cases.iter().map(Case::row));
                text.push_str(&columns(&rows));
            }
        }
        Ok(if self.json { format!("{:#}\n", serde_json::Value::from(all)) } else { text })
    }

    fn cases(&self, machine: &Machine, pattern: &Pattern) -> Result<Vec<Case>, String> {
        let mut cases = Vec::new();
        for writers in &self.ranks {
            for readers in &self.readers {
                cases.push(case(machine, pattern, *writers, *readers)?);
            }
        }
        Ok(cases)
    }
}

impl Case {
    fn row(&self) -> Vec<String> {
        let forecast = &self.forecast;
        vec![
            grouped(self.writers),
            grouped(self.readers),
            grouped(self.nodes),
            grouped(forecast.messages),
            grouped(forecast.parts),
            bytes(forecast.parts * PART),
            grouped(forecast.partners),
            grouped(forecast.fetches),
            bytes(forecast.read),
        ]
    }
}

fn case(machine: &Machine, pattern: &Pattern, writers: u64, readers: u64) -> Result<Case, String> {
    let writes = of_nodes(machine, pattern, writers)?;
    let reads = of_nodes(machine, pattern, readers)?;
    let nodes = (writes.len() + reads.len()) as u64;
    Ok(Case { writers, readers, nodes, forecast: forecast(&writes, &reads) })
}

/// The costs of a generation. Each element has the extents of a node; the first writing node is the
/// owner.
fn forecast(writes: &[Vec<Extent>], reads: &[Vec<Extent>]) -> Forecast {
    let mut map = Overlay::default();
    for (node, extents) in writes.iter().enumerate() {
        extents.iter().for_each(|extent| map.join(*extent, node));
    }
    let reports = writes.len().saturating_sub(1) as u64;
    let of_reader = if map.len() > FEW_PARTS { 4 } else { 2 };
    let mut all = Forecast {
        messages: reports + of_reader * reads.len() as u64,
        parts: map.len() as u64,
        ..Forecast::default()
    };
    for extents in reads {
        let mut sources = BTreeMap::<usize, u64>::new();
        for (part, node) in extents.iter().flat_map(|extent| map.within(*extent)) {
            *sources.entry(node).or_default() += part.len;
        }
        let fetches = sources.values().map(|bytes| bytes.div_ceil(FETCH)).sum();
        all.partners = all.partners.max(sources.len() as u64);
        all.fetches = all.fetches.max(fetches);
        all.read += sources.values().sum::<u64>();
    }
    all
}

/// The extents that the ranks of each node move together.
fn of_nodes(machine: &Machine, pattern: &Pattern, ranks: u64) -> Result<Vec<Vec<Extent>>, String> {
    let (nodes, per_node) = (machine.nodes_for(ranks)?, machine.ranks_per_node as u64);
    let mut left = MOST_EXTENTS;
    let node = |node: u64| {
        let mut extents = Vec::new();
        for rank in node * per_node..((node + 1) * per_node).min(ranks) {
            let access = pattern.access(rank, ranks);
            let view = engine::view(&access.view).map_err(|error| error.to_string())?;
            for call in &access.calls {
                let pieces = view.pieces(call.position, call.bytes);
                left = left.checked_sub(pieces).ok_or_else(|| {
                    format!("more than {MOST_EXTENTS} extents are too many to be compared")
                })?;
                extents.extend(view.extents(call.position, call.bytes));
            }
        }
        Ok(extents)
    };
    (0..nodes).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(text: &str, writers: u64, readers: u64) -> Case {
        let machine = Machine::preset("lustre").expect("a preset");
        case(&machine, &text.parse().expect("a pattern"), writers, readers).expect("a cost")
    }

    #[test]
    fn the_owner_of_what_ten_thousand_ranks_write_needs_megabytes() {
        for text in [
            "blocks,array=10000x4000,element=8",
            "blocks,array=400x250x220,element=8",
            "contiguous,bytes=1G",
        ] {
            let Case { forecast, nodes, .. } = cost(text, 10_000, 1_000);
            assert!(forecast.parts * PART < 64 << 20, "{text}: {forecast:?}");
            assert!(forecast.messages < 4 * nodes, "{text}: {forecast:?}");
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let Case { forecast, nodes, .. } = cost("blocks,array=64x64,element=8", 16, 4);
        assert_eq!((forecast.read, nodes), (64 * 64 * 8, 2));
        assert_eq!((forecast.partners, forecast.fetches, forecast.messages), (1, 1, 2));
    }

    #[test]
    fn readers_of_a_large_map_ask_twice() {
        let every_second = |count| vec![(0..count).map(|at| Extent::new(2 * at, 1)).collect()];
        let messages = |parts| forecast(&every_second(parts), &every_second(1)).messages;
        assert_eq!((messages(1000), messages(1001)), (2, 4));
    }

    #[test]
    fn a_part_that_two_nodes_write_counts_for_the_last_one() {
        let writes = [vec![Extent::new(0, 10)], vec![Extent::new(5, 10)]];
        let wanted = Forecast { messages: 3, parts: 2, partners: 1, fetches: 1, read: 8 };
        assert_eq!(forecast(&writes, &[vec![Extent::new(6, 8)]]), wanted);
        let most = Forecast { partners: 2, fetches: 2, read: 13, ..wanted };
        assert_eq!(forecast(&writes, &[vec![Extent::new(2, 13)]]), most);
    }
}

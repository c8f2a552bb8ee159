//! The cost of matching writers and readers of a coupled file, as `aggio_routing` computes it.

use super::machine::Machine;
use super::show::{bytes, grouped};
use super::{Arguments, engine};
use crate::columns;
use aggio_patterns::{Entry, Pattern};
use aggio_routing::{Forecast, Run, Shards, compress, forecast};
use serde_json::json;

/// Extents of all ranks together at most: each of them is walked.
const MOST_EXTENTS: u64 = 1 << 26;

const HEADING: [&str; 10] = [
    "writers",
    "readers",
    "agents",
    "matchers",
    "block",
    "messages",
    "when repeated",
    "partners",
    "index",
    "bytes read",
];

/// One pattern for one number of writers and one of readers.
struct Case {
    writers: u64,
    readers: u64,
    agents: u64,
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
                            "agents": case.agents, "matchers": forecast.matchers,
                            "block_bytes": forecast.block, "messages": forecast.matching,
                            "messages_repeated": forecast.repeated,
                            "partners": forecast.partners, "index_bytes": forecast.index,
                            "read_bytes": forecast.found,
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
            grouped(self.agents),
            grouped(forecast.matchers.into()),
            bytes(forecast.block),
            grouped(forecast.matching),
            grouped(forecast.repeated),
            grouped(forecast.partners),
            bytes(forecast.index),
            bytes(forecast.found),
        ]
    }
}

fn case(machine: &Machine, pattern: &Pattern, writers: u64, readers: u64) -> Result<Case, String> {
    let mut writes = of_nodes(machine, pattern, writers)?;
    let mut reads = vec![Vec::new(); writes.len()];
    reads.extend(of_nodes(machine, pattern, readers)?);
    writes.resize(reads.len(), Vec::new());
    let size = writes.iter().flatten().map(|run| run.hull().end()).max().unwrap_or(0);
    let agents = reads.len() as u64;
    let shards = Shards::choose(size, u32::try_from(agents).unwrap_or(u32::MAX), None, None);
    let forecast = forecast(shards, &writes, &reads).map_err(|full| full.to_string())?;
    Ok(Case { writers, readers, agents, forecast })
}

/// The extents that the ranks of each node move together.
fn of_nodes(machine: &Machine, pattern: &Pattern, ranks: u64) -> Result<Vec<Vec<Run>>, String> {
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
                    format!("more than {MOST_EXTENTS} extents are too many to be matched")
                })?;
                extents.extend(view.extents(call.position, call.bytes));
            }
        }
        extents.sort_unstable_by_key(|extent| extent.offset);
        Ok(compress(extents))
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
    fn ten_thousand_writers_and_a_thousand_readers_stay_within_the_promise() {
        for text in [
            "blocks,array=10000x4000,element=8",
            "blocks,array=400x250x220,element=8",
            "contiguous,bytes=1G",
        ] {
            let Case { forecast, .. } = cost(text, 10_000, 1_000);
            assert!(forecast.matching <= 64, "{text}: {forecast:?}");
            assert!(forecast.index <= 1 << 20, "{text}: {forecast:?}");
            assert_eq!(forecast.repeated, 0, "{text}");
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let Case { forecast, agents, .. } = cost("blocks,array=64x64,element=8", 16, 4);
        assert_eq!((forecast.found, agents), (64 * 64 * 8, 2));
        assert_eq!(forecast.partners, 1);
    }
}

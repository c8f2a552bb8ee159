//! Predictions for people, for programs and for the documents.

use super::Outcome;
use super::machine::Machine;
use super::prediction::Prediction;
use crate::columns;
use serde_json::{Map, Value, json};

/// All patterns on one machine.
pub(crate) struct Results {
    /// As the user called it.
    pub(crate) name: String,
    pub(crate) machine: Machine,
    /// Patterns by name.
    pub(crate) patterns: Vec<(String, Vec<Outcome>)>,
}

const HEADING: [&str; 12] = [
    "ranks",
    "nodes",
    "plan",
    "aggregators",
    "messages",
    "between nodes",
    "bytes between",
    "latency steps",
    "requests",
    "lock conflicts",
    "state/rank",
    "estimate",
];

fn row(outcome: &Outcome, plan: &Prediction) -> Vec<String> {
    let about = |exact: bool| if exact { "" } else { "≤" };
    let count = |n: u64| format!("{}{}", about(plan.exact), grouped(n));
    vec![
        grouped(outcome.ranks),
        grouped(outcome.nodes),
        plan.plan.into(),
        grouped(plan.aggregators),
        count(plan.counts.messages),
        count(plan.counts.messages_between),
        bytes(plan.counts.bytes_between),
        grouped(plan.latency_steps),
        format!("{}{}", about(plan.requests_exact), grouped(plan.requests)),
        grouped(plan.lock_conflicts),
        bytes(plan.state_bytes),
        time(plan.seconds),
    ]
}

/// A table for each pattern and machine.
pub(crate) fn table(all: &[Results]) -> String {
    let mut text = String::new();
    for results in all {
        for (name, outcomes) in &results.patterns {
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{name} on {}\n", results.name));
            let mut rows = vec![HEADING.map(str::to_uppercase).to_vec()];
            for outcome in outcomes {
                rows.extend(outcome.plans.iter().map(|plan| row(outcome, plan)));
            }
            rows[0].push("METHOD".into());
            let methods = outcomes.iter().flat_map(|outcome| &outcome.plans);
            for (row, plan) in rows[1..].iter_mut().zip(methods) {
                row.push(plan.method.clone());
            }
            text.push_str(&columns(&rows));
        }
    }
    text
}

/// A section for each machine, with a table for each pattern.
pub(crate) fn markdown(reads: bool, all: &[Results]) -> String {
    let direction = if reads { "reads" } else { "writes" };
    let mut text = String::from(include_str!("introduction.md"));
    text.push_str("\n## Machines\n\n| property |");
    text.extend(all.iter().map(|results| format!(" {} |", results.name)));
    text.push_str(&format!("\n|---|{}\n", "--:|".repeat(all.len())));
    for (place, (name, meaning)) in Machine::PROPERTIES.iter().enumerate() {
        text.push_str(&format!("| `{name}`: {meaning} |"));
        text.extend(all.iter().map(|results| format!(" {} |", results.machine.named()[place].1)));
        text.push('\n');
    }
    for results in all {
        text.push_str(&format!("\n## Collective {direction} on {}\n", results.name));
        for (name, outcomes) in &results.patterns {
            text.push_str(&format!("\n### `{name}`\n\n"));
            text.push_str(&format!("| {} |\n", HEADING.join(" | ")));
            text.push_str(&format!("|{}\n", "--:|".repeat(HEADING.len())));
            for outcome in outcomes {
                for plan in &outcome.plans {
                    text.push_str(&format!("| {} |\n", row(outcome, plan).join(" | ")));
                }
            }
        }
    }
    text
}

/// One JSON object.
pub(crate) fn json(reads: bool, all: &[Results]) -> String {
    let machines: Vec<Value> = all.iter().map(of_machine).collect();
    let direction = if reads { "read" } else { "write" };
    let all = json!({ "schema": 1, "direction": direction, "machines": machines });
    format!("{all:#}\n")
}

fn of_machine(results: &Results) -> Value {
    let properties = results.machine.named().into_iter();
    let properties: Map<String, Value> =
        properties.map(|(name, value)| (name.into(), json!(value))).collect();
    let patterns = results.patterns.iter().map(|(name, outcomes)| {
        let outcomes: Vec<Value> = outcomes.iter().map(outcome).collect();
        json!({ "pattern": name, "outcomes": outcomes })
    });
    let patterns: Vec<Value> = patterns.collect();
    json!({ "machine": results.name, "properties": properties, "patterns": patterns })
}

fn outcome(outcome: &Outcome) -> Value {
    let plans: Vec<Value> = outcome.plans.iter().map(plan).collect();
    json!({ "ranks": outcome.ranks, "nodes": outcome.nodes, "plans": plans })
}

fn plan(plan: &Prediction) -> Value {
    json!({
        "plan": plan.plan,
        "method": plan.method,
        "aggregators": plan.aggregators,
        "messages": plan.counts.messages,
        "messages_between_nodes": plan.counts.messages_between,
        "bytes": plan.counts.bytes,
        "bytes_between_nodes": plan.counts.bytes_between,
        "control_messages": plan.control_messages,
        "latency_steps": plan.latency_steps,
        "rounds": plan.rounds,
        "windows": plan.counts.windows,
        "requests": plan.requests,
        "requests_exact": plan.requests_exact,
        "lock_conflicts": plan.lock_conflicts,
        "state_bytes": plan.state_bytes,
        "communicator_bytes": plan.communicator_bytes,
        "view_bytes": plan.view_bytes,
        "buffer_bytes": plan.buffer_bytes,
        "exact": plan.exact,
        "seconds": plan.seconds,
    })
}

/// Thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (number as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.1} {}", units[unit]) }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!((grouped(999), grouped(1000)), ("999".into(), "1,000".into()));
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!((bytes(1023), bytes(1536)), ("1023 B".into(), "1.5 KiB".into()));
        assert_eq!((time(1.5), time(0.0015)), ("1.50 s".into(), "1.50 ms".into()));
    }
}

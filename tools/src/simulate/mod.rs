//! `aggio simulate`: predicts the cost of collective calls of many ranks on a described machine,
//! under aggio's plan and under ROMIO's.
//!
//! aggio's decision, file domains, aggregators and windows come from `agg_core::plan`, the code
//! that serves programs; ROMIO's plans are formulas (`romio.rs`), and so are all seconds
//! (`prediction.rs`). No rank's pieces are walked one by one where they repeat (`runs.rs`).

mod aggio;
mod coupled;
mod engine;
mod grid;
mod machine;
mod messages;
mod prediction;
mod romio;
mod runs;
mod show;
#[cfg(test)]
mod tests;
mod traffic;
mod work;

use crate::{Answer, man, numbers};
use agg_core::plan::aggregators;
use aggio_patterns::{Entry, MAX_RANKS, Pattern, parse_set, standard_set};
use clap::Args as _;
use engine::Request;
use machine::Machine;
use prediction::Prediction;
use romio::Driver;
use show::Results;
use traffic::Traffic;

/// Arguments of `aggio simulate`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Arguments {
    /// Patterns as text (interleaved,piece=1K,bytes=64M), pattern files, or a set: benchmark, slow,
    /// quick, simulation
    #[arg(required_unless_present = "man", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    #[arg(value_parser = numbers::ranks(MAX_RANKS))]
    ranks: Vec<u64>,
    /// Presets (laptop, cluster, lustre) or files with NAME = VALUE lines
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', default_value = "lustre")]
    machine: Vec<String>,
    /// Changes a property of every machine
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Lets so many ranks of another job read the pattern, which the ranks write to a coupled file
    #[arg(long, value_delimiter = ',', value_parser = numbers::ranks(MAX_RANKS))]
    #[arg(conflicts_with_all = ["read", "markdown"])]
    readers: Vec<u64>,
    /// Collective reads instead of writes
    #[arg(long)]
    read: bool,
    /// The hint cb_nodes, for all plans
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    cb_nodes: u32,
    /// The hint cb_config_list, for all plans
    #[arg(long, value_name = "LIST")]
    cb_config_list: Option<String>,
    /// The hint cb_buffer_size in bytes, for all plans
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    cb_buffer_size: Option<u64>,
    /// Everything as JSON
    #[arg(long, group = "form")]
    json: bool,
    /// Tables for docs/benchmarks/simulation.md
    #[arg(long, group = "form", hide = true)]
    markdown: bool,
    /// The manual page aggio-simulate(1)
    #[arg(long, group = "form", hide = true)]
    man: bool,
}

fn after_help() -> String {
    let mut text = String::from("Properties of a machine:\n");
    for (name, meaning) in Machine::PROPERTIES {
        text.push_str(&format!("  {name:<18} {meaning}\n"));
    }
    text.push_str("\nExample: aggio simulate --machine cluster --set request_latency=500us \\\n");
    text.push_str("           --ranks 1000,100000 interleaved,piece=1K,bytes=64G\n");
    text
}

/// The settings of all calls of one simulated job.
struct Setting<'a> {
    machine: &'a Machine,
    ranks: u64,
    nodes: u64,
    /// Writes, not reads.
    writes: bool,
    /// The ranks that aggio gives file domains.
    aggregators: &'a [usize],
    /// Those of ROMIO.
    romio_aggregators: &'a [usize],
    /// The hint `cb_buffer_size`, if given.
    buffer: Option<u64>,
    /// Whether hints name the aggregators.
    named: bool,
}

impl Setting<'_> {
    fn per_node(&self) -> u64 {
        self.machine.ranks_per_node as u64
    }

    fn ranks_of_node(&self) -> u64 {
        self.per_node().min(self.ranks)
    }

    fn node(&self, rank: u64) -> u64 {
        rank / self.per_node()
    }
}

/// All plans for one pattern on one number of ranks.
struct Outcome {
    ranks: u64,
    nodes: u64,
    plans: Vec<Prediction>,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        self.answer().unwrap_or_else(|why| Answer {
            text: String::new(),
            findings: vec![why],
            status: None,
        })
    }

    fn answer(&self) -> Result<Answer, String> {
        if self.man {
            let command = Arguments::augment_args(clap::Command::new("simulate"));
            let text = man::simulate(&command);
            return Ok(Answer { text, findings: Vec::new(), status: None });
        }
        let machines: Vec<Machine> =
            self.machine.iter().map(|name| self.machine(name)).collect::<Result<_, _>>()?;
        let entries = self.entries()?;
        if !self.readers.is_empty() {
            let names = self.machine.iter().cloned();
            let machines: Vec<(String, Machine)> = names.zip(machines).collect();
            let text = self.coupled(&machines, &entries)?;
            return Ok(Answer { text, findings: Vec::new(), status: None });
        }
        let results = machines.into_iter().zip(&self.machine).map(|(machine, name)| {
            let patterns = self.simulate_all(&machine, &entries)?;
            Ok(Results { name: name.clone(), machine, patterns })
        });
        let results: Vec<Results> = results.collect::<Result<_, String>>()?;
        let text = match (self.json, self.markdown) {
            (true, _) => show::json(self.read, &results),
            (_, true) => show::markdown(self.read, &results),
            _ => show::table(&results),
        };
        Ok(Answer { text, findings: Vec::new(), status: None })
    }

    fn simulate_all(
        &self,
        machine: &Machine,
        entries: &[Entry],
    ) -> Result<Vec<(String, Vec<Outcome>)>, String> {
        // Where files are only opened nothing moves: there is nothing to plan.
        let entries = entries.iter().filter(|entry| entry.pattern.opens().is_none());
        let of_entry = |entry: &Entry| {
            let outcomes = self.ranks.iter().map(|ranks| {
                let outcome = self.simulate(machine, &entry.pattern, *ranks);
                outcome.map_err(|why| format!("{}: {why}", entry.name))
            });
            Ok((entry.name.clone(), outcomes.collect::<Result<_, String>>()?))
        };
        entries.map(of_entry).collect()
    }

    fn machine(&self, name: &str) -> Result<Machine, String> {
        let mut machine = match Machine::preset(name) {
            Some(machine) => machine,
            None => {
                let text = std::fs::read_to_string(name).map_err(|error| {
                    let presets = Machine::PRESETS.join(", ");
                    format!("--machine {name}: no preset ({presets}), and no file: {error}")
                })?;
                Machine::described(&text).map_err(|why| format!("{name}: {why}"))?
            }
        };
        for pair in &self.set {
            machine.set(pair).map_err(|why| format!("--set {why}"))?;
        }
        for ranks in &self.ranks {
            if *ranks == 0 || *ranks > MAX_RANKS {
                return Err(format!("--ranks {ranks}: want 1 to {MAX_RANKS}"));
            }
            let fits = machine.nodes_for(*ranks).map(drop);
            fits.map_err(|why| format!("--ranks {ranks}: {name}: {why}"))?;
        }
        Ok(machine)
    }

    fn entries(&self) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        for text in &self.patterns {
            match text.parse::<Pattern>() {
                Ok(pattern) => entries.push(Entry { name: text.clone(), pattern }),
                Err(why) => entries.extend(set(text, &why)?),
            }
        }
        Ok(entries)
    }

    fn simulate(
        &self,
        machine: &Machine,
        pattern: &Pattern,
        ranks: u64,
    ) -> Result<Outcome, String> {
        let nodes = machine.nodes_for(ranks)?;
        let per_node = machine.ranks_per_node as u64;
        let hosts: Vec<String> =
            (0..ranks).map(|rank| format!("node{}", rank / per_node)).collect();
        let list = self.cb_config_list.as_deref();
        let choose = |list| {
            aggregators::choose(&hosts, list, self.cb_nodes).map_err(|error| error.to_string())
        };
        let (own, of_romio) = (choose(list)?, choose(Some(list.unwrap_or("*:1")))?);
        drop(hosts);
        let setting = Setting {
            machine,
            ranks,
            nodes,
            writes: !self.read,
            aggregators: &own,
            romio_aggregators: &of_romio,
            buffer: self.cb_buffer_size,
            named: list.is_some() || self.cb_nodes > 0,
        };
        Ok(Outcome { ranks, nodes, plans: predict(&setting, pattern)? })
    }
}

/// The patterns of the file or set `name`; `why` it is no pattern.
fn set(name: &str, why: &str) -> Result<Vec<Entry>, String> {
    if let Some(text) = standard_set(name) {
        return parse_set(text).map_err(|why| format!("{name}: {why}"));
    }
    match std::fs::read_to_string(name) {
        Ok(text) => parse_set(&text).map_err(|why| format!("{name}: {why}")),
        Err(error) => Err(format!("\"{name}\": no pattern ({why}), no set, and no file: {error}")),
    }
}

/// Runs all planners on all calls of `pattern`.
fn predict(setting: &Setting<'_>, pattern: &Pattern) -> Result<Vec<Prediction>, String> {
    let work = work::of(setting, pattern)?;
    let drivers: &[Driver] = match setting.machine.stripe_size {
        0.0 => &[Driver::Generic],
        _ => &[Driver::Generic, Driver::Lustre],
    };
    let mut own: Vec<_> = work.calls.iter().map(|call| aggio::plan(setting, call)).collect();
    let mut others: Vec<Vec<_>> = (drivers.iter())
        .map(|driver| work.calls.iter().map(|call| romio::plan(setting, call, *driver)).collect())
        .collect();
    let mut traffic: Vec<Vec<Option<Traffic>>> = Vec::new();
    traffic.push(own.iter_mut().zip(&work.calls).map(|(p, c)| p.traffic(setting, c)).collect());
    for plans in &mut others {
        let plans = plans.iter_mut().zip(&work.calls);
        traffic.push(plans.map(|(plan, call)| plan.traffic(setting, call)).collect());
    }
    count(setting, pattern, &work, &mut traffic)?;
    let mut sums = vec![Prediction::default(); 1 + drivers.len()];
    let mut traffic = traffic.into_iter();
    for ((plan, call), counted) in
        own.iter().zip(&work.calls).zip(traffic.next().into_iter().flatten())
    {
        sums[0].add(plan.predict(setting, call, counted));
    }
    for ((plans, counted), sum) in others.iter().zip(traffic).zip(&mut sums[1..]) {
        for ((plan, call), counted) in plans.iter().zip(&work.calls).zip(counted) {
            sum.add(plan.predict(setting, call, counted));
        }
    }
    for sum in &mut sums {
        sum.scale(work.weight);
    }
    Ok(sums)
}

/// Shows every rank's calls to everything that counts: for each plan, one for each call.
fn count(
    setting: &Setting<'_>,
    pattern: &Pattern,
    work: &work::Work,
    traffic: &mut [Vec<Option<Traffic>>],
) -> Result<(), String> {
    for rank in 0..setting.ranks {
        let access = pattern.access(rank, setting.ranks);
        let view = engine::view(&access.view).map_err(|error| error.to_string())?;
        for plan in traffic.iter_mut() {
            for (traffic, call) in plan.iter_mut().zip(&work.calls) {
                let call = access.calls[call.index];
                if let (Some(traffic), 1..) = (traffic, call.bytes) {
                    let request =
                        Request { view: &view, position: call.position, bytes: call.bytes };
                    traffic.add(rank, setting.node(rank), &access, call, request);
                }
            }
        }
    }
    Ok(())
}

//! The calls of a pattern, and the request of every rank in each of them.

use super::machine::Machine;
use super::{Setting, engine};
use agg_core::Extent;
use agg_core::plan::Summary;
use agg_core::plan::cost::Costs;
use aggio_patterns::Pattern;

/// Calls times ranks of a pattern beyond which only some of its calls are simulated.
const MOST_PARTS: u64 = 1 << 20;

/// One collective call of all ranks.
pub(crate) struct Call {
    /// Its place among the calls of a rank.
    pub(crate) index: usize,
    /// The requests of all ranks, as the engine summarises them.
    pub(crate) all: Vec<Summary>,
    /// Bytes of the engine's trees for the view of the rank that needs most.
    pub(crate) view_bytes: u64,
    /// Bytes of the longest view as it travels.
    pub(crate) header_bytes: u64,
}

impl Call {
    fn new(index: usize) -> Self {
        Self { index, all: Vec::new(), view_bytes: 0, header_bytes: 0 }
    }

    /// The file bytes from the first to the last that any rank requests.
    pub(crate) fn hull(&self) -> Extent {
        Summary::hull(&self.all)
    }

    /// Bytes that all ranks move.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.iter().map(|summary| summary.bytes).sum()
    }

    /// Pieces of all ranks.
    pub(crate) fn pieces(&self) -> u64 {
        self.all.iter().map(|summary| summary.pieces).sum()
    }

    /// Whether every byte of the hull is moved by somebody. No pattern moves a byte twice.
    pub(crate) fn is_dense(&self) -> bool {
        self.bytes() == self.hull().len
    }
}

/// The calls that are simulated, and how many of the pattern's each of them stands for.
pub(crate) struct Work {
    pub(crate) calls: Vec<Call>,
    pub(crate) weight: f64,
}

/// Asks the engine about every rank.
///
/// # Errors
/// The engine's, if it cannot have such a view.
pub(crate) fn of(setting: &Setting<'_>, pattern: &Pattern) -> Result<Work, String> {
    let (ranks, kind) = (setting.ranks, if setting.writes { 2 } else { 1 });
    let figures = figures(setting.machine);
    let number = pattern.access(0, ranks).calls.len();
    let most = (MOST_PARTS / ranks).max(1) as usize;
    let chosen: Vec<usize> = if number <= most {
        (0..number).collect()
    } else {
        (0..most).map(|index| index * number / most).collect()
    };
    let mut calls: Vec<Call> = chosen.iter().map(|index| Call::new(*index)).collect();
    for rank in 0..ranks {
        let access = pattern.access(rank, ranks);
        let view = engine::view(&access.view).map_err(|error| error.to_string())?;
        let (tree, header) = (view.filetype().tree_bytes() as u64, view.encode().len() as u64);
        for call in &mut calls {
            let part = access.calls[call.index];
            call.all.push(match part.bytes {
                0 => Summary { kind, figures, ..Summary::default() },
                bytes => Summary { figures, ..Summary::of(&view, part.position, bytes, kind) },
            });
            call.view_bytes = call.view_bytes.max(tree);
            call.header_bytes = call.header_bytes.max(header);
        }
    }
    let weight = number as f64 / calls.len().max(1) as f64;
    Ok(Work { calls, weight })
}

/// The costs of requests, as ranks would measure them.
fn figures(machine: &Machine) -> Costs {
    let mib = (1 << 20) as f64 / machine.target_bandwidth;
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
    Costs::new(nanoseconds(machine.request_latency), nanoseconds(mib))
}

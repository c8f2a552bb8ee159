//! ROMIO's plans, by formulas: the generic two-phase code and that of its Lustre driver.
//!
//! Both exchange a list of pieces, 16 bytes each, and then go in lock-step through rounds, each of
//! which starts with an all-to-all exchange of message sizes.

use super::Setting;
use super::grid::Grid;
use super::prediction::{Cost, Prediction, seconds};
use super::traffic::{Senders, Traffic};
use super::work::Call;
use std::collections::BTreeSet;

/// Default of `cb_buffer_size`.
const COLLECTIVE_BUFFER: u64 = 16 << 20;
/// Defaults of `ind_wr_buffer_size` and `ind_rd_buffer_size`.
const WRITE_BUFFER: u64 = 512 << 10;
const READ_BUFFER: u64 = 4 << 20;

/// A piece in a list: offset and length.
const LISTED_PIECE: u64 = 16;
/// A piece of another rank on an aggregator: offset, length, place in the buffer.
const RECEIVED_PIECE: u64 = 24;

/// Bytes of arrays with an entry for each rank: first and last offsets of all ranks (16), counts of
/// requests to and from each (16), their descriptions (`ADIOI_Access`, 2 x 32), places in buffers
/// (8), and in the rounds sizes, counts, partial pieces and positions (7 x 4) and send buffers (8).
const EACH_RANK: u64 = 16 + 16 + 64 + 8 + 28 + 8;
/// Bounds of file domains.
const EACH_AGGREGATOR: u64 = 16;

/// Which code of ROMIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Generic,
    Lustre,
}

/// The plan of one call, before anything is counted.
pub(crate) struct Plan {
    driver: Driver,
    aggregators: Vec<usize>,
    grid: Option<Grid>,
}

/// Plans a call as ROMIO does.
pub(crate) fn plan(setting: &Setting<'_>, call: &Call, driver: Driver) -> Plan {
    let mut aggregators = setting.romio_aggregators.to_vec();
    let hull = call.hull();
    if hull.is_empty() || !is_interleaved(call) {
        return Plan { driver, aggregators, grid: None };
    }
    let grid = match driver {
        Driver::Generic => Grid::Even {
            hull,
            domain: hull.len.div_ceil(aggregators.len() as u64),
            buffer: setting.buffer.unwrap_or(COLLECTIVE_BUFFER),
        },
        Driver::Lustre => {
            let machine = setting.machine;
            let stripe = (machine.stripe_size as u64).max(1);
            let domains = available(machine.stripe_count as u64, aggregators.len() as u64);
            aggregators.truncate(domains as usize);
            // Domain d has the stripes with the numbers d, d + domains, ...
            Grid::Cyclic { hull, stripe, domains }
        }
    };
    Plan { driver, aggregators, grid: Some(grid) }
}

/// How many of the aggregators the Lustre driver uses: as many as stripes, or a divisor of these.
fn available(stripes: u64, aggregators: u64) -> u64 {
    if aggregators >= stripes {
        return stripes;
    }
    (1..=aggregators).rev().find(|n| stripes.is_multiple_of(*n)).unwrap_or(1)
}

/// ROMIO looks at neighbouring ranks only.
fn is_interleaved(call: &Call) -> bool {
    call.all.windows(2).any(|pair| {
        let (before, this) = (pair[0].span, pair[1].span);
        let (end_before, end) = (before.end() as i128 - 1, this.end() as i128 - 1);
        (this.offset as i128) < end_before && this.offset as i128 <= end
    })
}

impl Plan {
    /// The counter of the messages of this plan.
    pub(crate) fn traffic(&mut self, setting: &Setting<'_>, call: &Call) -> Option<Traffic> {
        let grid = self.grid.take()?;
        let (per_node, pieces) = (setting.per_node(), call.pieces());
        Some(Traffic::new(grid, Senders::Ranks, &self.aggregators, per_node, pieces))
    }

    /// The costs, when all ranks have been counted.
    pub(crate) fn predict(
        &self,
        setting: &Setting<'_>,
        call: &Call,
        traffic: Option<Traffic>,
    ) -> Prediction {
        let mut prediction = Prediction {
            plan: match self.driver {
                Driver::Generic => "romio",
                Driver::Lustre => "romio-lustre",
            },
            exact: true,
            ..Prediction::default()
        };
        let mut cost = Cost {
            nodes: setting.nodes,
            storing_nodes: setting.nodes,
            bytes: call.bytes(),
            bytes_out: call.bytes(),
            overlapped: false,
        };
        let pieces = call.all.iter().map(|part| part.pieces).max().unwrap_or(0);
        prediction.view_bytes = LISTED_PIECE * pieces;
        match traffic {
            Some(traffic) => self.two_phase(setting, call, traffic, &mut prediction, &mut cost),
            None => independent(setting, call, &mut prediction, &mut cost),
        }
        prediction.seconds = seconds(setting.machine, &prediction, &cost);
        prediction
    }

    fn two_phase(
        &self,
        setting: &Setting<'_>,
        call: &Call,
        traffic: Traffic,
        prediction: &mut Prediction,
        cost: &mut Cost,
    ) {
        let ranks = setting.ranks;
        let depth = u64::from(ranks.next_power_of_two().ilog2());
        let grid = traffic.grid();
        prediction.method = "two-phase: neighbouring ranks interleave".into();
        prediction.aggregators = grid.domains() as u64;
        prediction.rounds = grid.rounds();
        let node = |domain: usize| self.aggregators[domain] as u64 / setting.per_node();
        let unit = setting.machine.lock_unit as u64;
        prediction.lock_conflicts = if setting.writes { grid.shared_units(unit, &node) } else { 0 };
        // Two gathers of offsets, an exchange of counts, the number of rounds, the result.
        let collectives = 5 + prediction.rounds;
        prediction.latency_steps = if setting.nodes > 1 { collectives * depth } else { 0 };
        let (buffer, largest) = (grid.size(), call.all.iter().map(|p| p.pieces).max().unwrap_or(0));
        let (counts, exact) = traffic.finish();
        prediction.exact = exact;
        prediction.control_messages = collectives * depth * ranks + counts.partners;
        let fills = setting.writes && !call.is_dense();
        prediction.requests = if fills { 2 * counts.windows } else { counts.windows };
        prediction.requests_exact = exact;
        let received = call.pieces() / prediction.aggregators.max(1);
        prediction.state_bytes = EACH_RANK * ranks
            + EACH_AGGREGATOR * self.aggregators.len() as u64
            + LISTED_PIECE * largest
            + RECEIVED_PIECE * received;
        prediction.buffer_bytes = buffer;
        prediction.counts = counts;
        cost.storing_nodes = setting.nodes.min(prediction.aggregators);
        cost.bytes_out = if fills { 2 * call.hull().len } else { call.hull().len };
    }
}

/// Every rank by itself, with data sieving where its part has gaps.
fn independent(setting: &Setting<'_>, call: &Call, prediction: &mut Prediction, cost: &mut Cost) {
    let depth = u64::from(setting.ranks.next_power_of_two().ilog2());
    prediction.method = "independent: neighbouring ranks do not interleave".into();
    prediction.latency_steps = if setting.nodes > 1 { 2 * depth } else { 0 };
    prediction.control_messages = 2 * depth * setting.ranks;
    prediction.state_bytes = EACH_RANK * setting.ranks + prediction.view_bytes;
    prediction.requests_exact = true;
    prediction.lock_conflicts = if setting.writes { meetings(setting, call) } else { 0 };
    cost.bytes_out = 0;
    for part in &call.all {
        let (requests, bytes) = match (part.pieces, setting.writes) {
            (0, _) => (0, 0),
            (1, _) => (1, part.bytes),
            (_, true) => (2 * part.span.len.div_ceil(WRITE_BUFFER), 2 * part.span.len),
            (_, false) => (part.span.len.div_ceil(READ_BUFFER), part.span.len),
        };
        prediction.requests += requests;
        cost.bytes_out += bytes;
        prediction.buffer_bytes = if setting.writes { WRITE_BUFFER } else { READ_BUFFER };
    }
}

/// Lock units in which parts of ranks on different nodes meet, if every rank writes its own part.
pub(crate) fn meetings(setting: &Setting<'_>, call: &Call) -> u64 {
    if !setting.writes {
        return 0;
    }
    let unit = setting.machine.lock_unit as u64;
    let mut parts: Vec<_> = (0u64..)
        .zip(&call.all)
        .filter(|(_, part)| part.bytes > 0)
        .map(|(rank, part)| {
            (part.span.offset / unit, (part.span.end() - 1) / unit, setting.node(rank))
        })
        .collect();
    parts.sort_unstable();
    let meet = |pair: &[(u64, u64, u64)]| pair[1].0 <= pair[0].1 && pair[0].2 != pair[1].2;
    let shared: BTreeSet<u64> =
        parts.windows(2).filter(|pair| meet(pair)).map(|pair| pair[1].0).collect();
    shared.len() as u64
}

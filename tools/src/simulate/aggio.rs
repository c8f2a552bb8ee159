//! aggio's plan: made by the planner that serves programs.

use super::Setting;
use super::grid::Grid;
use super::messages::{self, Talk};
use super::prediction::{Cost, Prediction, seconds};
use super::romio;
use super::traffic::Traffic;
use super::work::Call;
use agg_core::hints::{Hints, Switch};
use agg_core::node;
use agg_core::plan::node_aggregation::{self, Premises};
use agg_core::plan::{self, Decision, Domains, Method, Sequence, Total, Way, Wishes};

/// The plan of one call, before anything is counted.
pub(crate) struct Plan {
    decision: Decision,
    way: Way,
    grid: Option<Grid>,
    /// Of each domain.
    aggregators: Vec<usize>,
    /// Messages without data.
    talk: Talk,
}

/// Plans a call as every rank does.
pub(crate) fn plan(setting: &Setting<'_>, call: &Call) -> Plan {
    let total = total(setting, call);
    let decision = plan::decide(&total, wishes(setting));
    let talk = messages::meeting(setting);
    let mut plan =
        Plan { decision, way: Way::Independent, grid: None, aggregators: Vec::new(), talk };
    if decision.method == Method::TwoPhase {
        plan.two_phase(setting, call, &total);
    }
    plan
}

/// No hint but those of the command line.
fn wishes(setting: &Setting<'_>) -> Wishes {
    Wishes {
        buffering: Switch::Automatic,
        only_collective: false,
        writes: setting.writes,
        atomic: false,
        together: setting.nodes == 1,
        logs: false,
        staged: false,
    }
}

/// The hint `cb_buffer_size`.
fn buffer(setting: &Setting<'_>) -> u64 {
    setting.buffer.unwrap_or(Hints::default().cb_buffer_size)
}

/// The unit in which the file system stores or stripes, in bytes.
fn unit(setting: &Setting<'_>) -> u64 {
    setting.machine.block_size.max(setting.machine.stripe_size) as u64
}

fn domains(setting: &Setting<'_>, call: &Call, count: usize) -> Domains {
    Domains::new(call.hull(), count, unit(setting), 0)
}

/// The total of all ranks, computed from the totals of the nodes.
fn total(setting: &Setting<'_>, call: &Call) -> Total {
    let nodes: Vec<Total> = call.all.chunks(setting.per_node() as usize).map(Total::of).collect();
    Total::join(&nodes)
}

/// The aggregators of a call that moves data through the memory of nodes.
fn of_nodes(setting: &Setting<'_>, total: &Total) -> Vec<usize> {
    match setting.named {
        true => setting.aggregators.to_vec(),
        false => node_aggregation::aggregators(setting.aggregators, total, |rank| {
            setting.node(rank as u64) as usize
        }),
    }
}

impl Plan {
    /// Windows and aggregators of a call in two phases.
    fn two_phase(&mut self, setting: &Setting<'_>, call: &Call, total: &Total) {
        let members = setting.ranks_of_node() as usize;
        let room = |grain| node::window_size(members, grain) as u64;
        let (unit, buffer_size) = (unit(setting), buffer(setting));
        // Patterns do not describe the content of their files.
        let premises = Premises { unit, least: 0, buffer_size, map: None, shares_units: true };
        self.aggregators = of_nodes(setting, total);
        let windows = Sequence::of(total, self.aggregators.len(), premises, room);
        self.way = messages::way(setting, !windows.is_sparse(total.bytes));
        if self.way != Way::Messages {
            self.grid = Some(Grid::sequence(windows));
            return;
        }
        self.aggregators = setting.aggregators.to_vec();
        let domains = domains(setting, call, self.aggregators.len());
        self.talk.add(messages::everybody(setting));
        self.talk.add(messages::headers(call, &domains, &self.aggregators));
        let size = plan::window_size(&call.all, buffer(setting));
        self.grid = Some(Grid::sequence(Sequence::new(domains, size)));
    }

    /// The counter of the messages of this plan.
    pub(crate) fn traffic(&mut self, setting: &Setting<'_>, call: &Call) -> Option<Traffic> {
        let (grid, senders) = (self.grid.take()?, messages::senders(self.way));
        let (per_node, pieces) = (setting.per_node(), call.pieces());
        Some(Traffic::new(grid, senders, &self.aggregators, per_node, pieces))
    }

    /// The costs, when all ranks have been counted.
    pub(crate) fn predict(
        &self,
        setting: &Setting<'_>,
        call: &Call,
        traffic: Option<Traffic>,
    ) -> Prediction {
        let lists = (setting.aggregators.len() + self.aggregators.len()) * size_of::<usize>();
        let mut prediction = Prediction {
            plan: "aggio",
            method: method(self.way, self.decision),
            state_bytes: self.talk.state + lists as u64,
            communicator_bytes: communicator(setting),
            view_bytes: call.view_bytes,
            buffer_bytes: node_memory(setting),
            latency_steps: self.talk.steps,
            control_messages: self.talk.messages,
            exact: true,
            ..Prediction::default()
        };
        let mut cost = Cost {
            nodes: setting.nodes,
            storing_nodes: setting.nodes,
            bytes: call.bytes(),
            bytes_out: call.bytes(),
            overlapped: true,
        };
        match traffic {
            Some(traffic) => {
                self.count(setting, call, traffic, &mut prediction);
                cost.storing_nodes = setting.nodes.min(prediction.aggregators);
            }
            None if self.decision.method == Method::Independent => {
                // Separate ranks meet nobody but at the ends of their parts.
                prediction.requests = call.pieces();
                prediction.requests_exact = call.all.iter().all(|part| part.pieces <= 1);
                prediction.lock_conflicts = romio::meetings(setting, call);
            }
            None => prediction.requests_exact = true,
        }
        prediction.seconds = seconds(setting.machine, &prediction, &cost);
        prediction
    }

    fn count(
        &self,
        setting: &Setting<'_>,
        call: &Call,
        traffic: Traffic,
        prediction: &mut Prediction,
    ) {
        let grid = traffic.grid();
        let node = |domain: usize| self.aggregators[domain] as u64 / setting.per_node();
        prediction.aggregators = grid.domains() as u64;
        let unit = setting.machine.lock_unit as u64;
        prediction.lock_conflicts = if setting.writes { grid.shared_units(unit, &node) } else { 0 };
        if self.way == Way::Messages {
            // A window that is put together, and messages under way in both roles.
            prediction.buffer_bytes = 5 * grid.size();
        }
        let (mut counts, exact) = traffic.finish();
        if self.way == Way::Nodes && !setting.writes {
            // A node asks about every window between its first and its last byte, and is answered
            // where it requests something.
            counts.messages += counts.filled;
            counts.messages_between += counts.filled;
        }
        prediction.exact = exact;
        let by_window = call.is_dense() || !setting.writes;
        prediction.requests =
            if by_window { counts.windows } else { counts.windows.saturating_add(call.pieces()) };
        prediction.requests_exact = by_window && exact;
        prediction.counts = counts;
    }
}

/// The memory that the ranks of a node share for a communicator.
fn node_memory(setting: &Setting<'_>) -> u64 {
    node::memory_size(setting.ranks_of_node() as usize, setting.nodes as usize) as u64
}

/// Bytes that a rank keeps for a communicator: the node of every rank and the ranks of every node
/// (twice, in the transport and in the memory of the node), and the names of hosts.
fn communicator(setting: &Setting<'_>) -> u64 {
    const NAME: u64 = 16;
    let word = size_of::<usize>() as u64;
    setting.ranks * (3 * word + size_of::<String>() as u64 + NAME) + 2 * setting.nodes * word
}

fn method(way: Way, decision: Decision) -> String {
    let words = match decision.method {
        Method::Fail => "fails",
        Method::Nothing => "nothing",
        Method::Independent | Method::TwoPhase => way.words(),
    };
    format!("{words}: {}", decision.reason.words())
}

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
use agg_core::plan::{self, Decision, Domains, Method, Sequence, Total, Way, Wishes};

/// Windows of shared memory beyond this many times what the data would fill are not used, and how
/// many may be empty in any case (`agg_core::exchange`).
const SPARSE: u64 = 32;
const FREE: u64 = 64;

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
    let decision = plan::decide(&total(setting, call), wishes(setting));
    let talk = messages::meeting(setting);
    let mut plan =
        Plan { decision, way: Way::Independent, grid: None, aggregators: Vec::new(), talk };
    if decision.method == Method::TwoPhase {
        plan.two_phase(setting, call);
    }
    plan
}

/// What the ranks of all nodes bring.
fn total(setting: &Setting<'_>, call: &Call) -> Total {
    let nodes = call.all.chunks(setting.per_node() as usize).map(Total::of);
    Total::join(&nodes.collect::<Vec<_>>())
}

/// No hint but those of the command line.
fn wishes(setting: &Setting<'_>) -> Wishes {
    Wishes {
        buffering: Switch::Automatic,
        only_collective: false,
        writes: setting.writes,
        atomic: false,
    }
}

/// The hint `cb_buffer_size`.
fn buffer(setting: &Setting<'_>) -> u64 {
    setting.buffer.unwrap_or(Hints::default().cb_buffer_size)
}

fn domains(setting: &Setting<'_>, call: &Call, count: usize) -> Domains {
    let alignment = setting.machine.block_size.max(setting.machine.stripe_size) as u64;
    Domains::new(call.hull(), count, alignment, 0)
}

impl Plan {
    /// Windows and aggregators of a call in two phases.
    fn two_phase(&mut self, setting: &Setting<'_>, call: &Call) {
        self.aggregators = setting.aggregators.to_vec();
        let window = node::window_size(setting.ranks_of_node() as usize) as u64;
        let size = window.min(buffer(setting));
        let mut of_nodes = setting.aggregators.to_vec();
        if !setting.named {
            of_nodes.sort_unstable();
            if !total(setting, call).is_spread() {
                of_nodes.dedup_by_key(|rank| setting.node(*rank as u64));
            }
        }
        let domains_of_node = domains(setting, call, of_nodes.len());
        let most = call.bytes().div_ceil(size).saturating_mul(SPARSE).saturating_add(FREE);
        let dense = Sequence::new(domains_of_node, size).count() <= most;
        self.way = messages::way(setting, dense);
        self.grid = Some(match self.way {
            Way::Memory | Way::Nodes => {
                self.aggregators = of_nodes;
                Grid::sequence(domains_of_node, size)
            }
            Way::Messages | Way::Independent => {
                let domains = domains(setting, call, self.aggregators.len());
                let headers = messages::headers(call, &domains, &self.aggregators);
                self.talk.add(messages::everybody(setting));
                self.talk.add(headers);
                Grid::sequence(domains, plan::window_size(&call.all, buffer(setting)))
            }
        });
    }

    /// What counts the messages of this plan.
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
            buffer_bytes: node::memory_size(
                setting.ranks_of_node() as usize,
                setting.nodes as usize,
            ) as u64,
            latency_steps: self.talk.steps,
            control_messages: self.talk.messages,
            exact: true,
            ..Prediction::default()
        };
        let mut cost = Cost {
            nodes: setting.nodes,
            receiving_nodes: setting.nodes,
            writers: setting.ranks,
            bytes: call.bytes(),
            bytes_out: call.bytes(),
            overlapped: true,
        };
        match traffic {
            Some(traffic) => {
                self.count(setting, call, traffic, &mut prediction);
                cost.receiving_nodes = setting.nodes.min(prediction.aggregators);
                cost.writers = self.writers(setting, prediction.aggregators);
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

    /// Ranks that make requests at the same time.
    fn writers(&self, setting: &Setting<'_>, aggregators: u64) -> u64 {
        let at_a_time = setting.ranks_of_node().min(node::WINDOWS_UNDER_WAY as u64);
        match self.way {
            // Whoever is free on an aggregator's node stores a window.
            Way::Memory | Way::Nodes if !setting.named => {
                setting.nodes.min(aggregators) * at_a_time
            }
            _ => aggregators,
        }
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
        if self.way == Way::Memory {
            (counts.messages, counts.bytes) = (0, 0);
        }
        if self.way == Way::Nodes && !setting.writes {
            // Every answer follows a question; one for nothing has no answer.
            counts.messages *= 2;
            counts.messages_between *= 2;
        }
        prediction.exact = exact && (setting.writes || self.way != Way::Nodes || call.is_dense());
        let by_window = call.is_dense() || !setting.writes;
        prediction.requests =
            if by_window { counts.windows } else { counts.windows.saturating_add(call.pieces()) };
        prediction.requests_exact = by_window && exact;
        prediction.counts = counts;
    }
}

/// What a rank keeps for a communicator: the node of every rank and the ranks of every node (twice,
/// in the transport and in the memory of the node), and the names of hosts.
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

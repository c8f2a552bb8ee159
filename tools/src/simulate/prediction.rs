//! The cost of a plan.

use super::machine::Machine;
use super::traffic::Counts;

/// The predicted work of one plan for all calls of a pattern on one number of ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prediction {
    /// `aggio`, `romio` or `romio-lustre`.
    pub(crate) plan: &'static str,
    /// How the first call is carried out, and why.
    pub(crate) method: String,
    /// Ranks that get file domains in the call that uses most.
    pub(crate) aggregators: u64,
    /// Messages with data, and their bytes.
    pub(crate) counts: Counts,
    /// Messages without data: metadata and collective steps.
    pub(crate) control_messages: u64,
    /// Collective steps of all calls that wait for a message between nodes, one after the other.
    pub(crate) latency_steps: u64,
    /// Windows that all ranks pass in lock-step; 0 if there is none.
    pub(crate) rounds: u64,
    /// Requests to the file system.
    pub(crate) requests: u64,
    /// Whether `requests` is exact, not an upper bound.
    pub(crate) requests_exact: bool,
    /// Lock units that more than one node writes.
    pub(crate) lock_conflicts: u64,
    /// Bytes that the rank with most needs for planning.
    pub(crate) state_bytes: u64,
    /// Bytes that a rank needs for a communicator, even without files.
    pub(crate) communicator_bytes: u64,
    /// Bytes of the view of the rank with most, or of its list of pieces.
    pub(crate) view_bytes: u64,
    /// Bytes of buffers of a rank; of aggio's, of a node.
    pub(crate) buffer_bytes: u64,
    /// Whether all counts are exact.
    pub(crate) exact: bool,
    /// Seconds, estimated.
    pub(crate) seconds: f64,
}

impl Prediction {
    /// Adds another call of the same pattern.
    pub(crate) fn add(&mut self, other: Prediction) {
        if self.plan.is_empty() {
            *self = other;
            return;
        }
        self.aggregators = self.aggregators.max(other.aggregators);
        self.counts.messages += other.counts.messages;
        self.counts.messages_between += other.counts.messages_between;
        self.counts.filled += other.counts.filled;
        self.counts.bytes += other.counts.bytes;
        self.counts.bytes_between += other.counts.bytes_between;
        self.counts.partners += other.counts.partners;
        self.counts.windows += other.counts.windows;
        self.control_messages += other.control_messages;
        self.latency_steps += other.latency_steps;
        self.rounds += other.rounds;
        self.requests += other.requests;
        self.requests_exact &= other.requests_exact;
        self.lock_conflicts += other.lock_conflicts;
        self.state_bytes = self.state_bytes.max(other.state_bytes);
        self.communicator_bytes = self.communicator_bytes.max(other.communicator_bytes);
        self.view_bytes = self.view_bytes.max(other.view_bytes);
        self.buffer_bytes = self.buffer_bytes.max(other.buffer_bytes);
        self.exact &= other.exact;
        self.seconds += other.seconds;
    }

    /// Every call stands for `weight` calls.
    pub(crate) fn scale(&mut self, weight: f64) {
        if weight == 1.0 {
            return;
        }
        let scaled = |value: &mut u64| *value = (*value as f64 * weight).round() as u64;
        let counts = &mut self.counts;
        for value in [
            &mut counts.messages,
            &mut counts.messages_between,
            &mut counts.filled,
            &mut counts.bytes,
            &mut counts.bytes_between,
            &mut counts.partners,
            &mut counts.windows,
            &mut self.control_messages,
            &mut self.latency_steps,
            &mut self.rounds,
            &mut self.requests,
            &mut self.lock_conflicts,
        ] {
            scaled(value);
        }
        self.seconds *= weight;
        (self.exact, self.requests_exact) = (false, false);
    }
}

/// The parameters of the cost formula for one call.
pub(crate) struct Cost {
    pub(crate) nodes: u64,
    /// Nodes that make requests; in two phases those with an aggregator.
    pub(crate) storing_nodes: u64,
    /// Bytes that all ranks move.
    pub(crate) bytes: u64,
    /// Bytes that requests move.
    pub(crate) bytes_out: u64,
    /// Whether the exchange and the copies on nodes go on at the same time.
    pub(crate) overlapped: bool,
}

/// Seconds of one call with the counts of `prediction`.
pub(crate) fn seconds(machine: &Machine, prediction: &Prediction, cost: &Cost) -> f64 {
    let each = |total: u64, among: u64| total as f64 / among.max(1) as f64;
    let steps = prediction.latency_steps as f64 * machine.network_latency;
    let counts = &prediction.counts;
    let exchange = each(counts.bytes_between, cost.storing_nodes) / machine.network_bandwidth
        + each(counts.messages_between, cost.storing_nodes) * machine.network_latency;
    let copy = each(cost.bytes, cost.nodes) / machine.memory_bandwidth;
    let passed = if cost.overlapped { exchange.max(copy) } else { exchange + copy };
    steps + passed.max(storage(machine, prediction, cost))
}

/// Seconds until the file system has everything. A node's client has its own requests: it cuts long
/// requests of programs, sends several at a time, delays writes and reads ahead while programs go
/// on. So the length of the requests that a plan makes counts only where they are short.
fn storage(machine: &Machine, prediction: &Prediction, cost: &Cost) -> f64 {
    let nodes = cost.storing_nodes.max(1) as f64;
    let cut = (cost.bytes_out as f64 / machine.request_size).ceil();
    // A lock that another node holds costs a request to get it back.
    let requests = cut.max(prediction.requests as f64) + 2.0 * prediction.lock_conflicts as f64;
    let under_way = nodes * machine.requests_under_way * machine.stripe_count;
    let answers = (requests / under_way).max(requests.min(1.0)) * machine.request_latency;
    let links = cost.bytes_out as f64 / (nodes * machine.network_bandwidth);
    let targets = cost.bytes_out as f64 / (machine.target_bandwidth * machine.stripe_count);
    answers.max(links).max(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(machine: &Machine, requests: u64, nodes: u64, bytes: u64) -> f64 {
        let prediction = Prediction { requests, ..Prediction::default() };
        let cost = Cost { nodes, storing_nodes: nodes, bytes, bytes_out: bytes, overlapped: true };
        storage(machine, &prediction, &cost)
    }

    const GIB: u64 = 1 << 30;

    #[test]
    fn long_requests_of_programs_are_no_faster_than_those_that_are_sent() {
        for name in Machine::PRESETS {
            let machine = Machine::preset(name).expect("a preset");
            let (sent, long) = (stored(&machine, 1024, 1, GIB), stored(&machine, 64, 1, GIB));
            assert_eq!(sent, long, "{name}: 1 MiB or 16 MiB at a time");
            assert!(stored(&machine, 1 << 20, 1, GIB) > sent, "{name}: 1 KiB at a time");
        }
    }

    #[test]
    fn targets_links_and_answers_bound_what_is_stored() {
        let mut machine = Machine::preset("lustre").expect("a preset");
        let near =
            |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found}");
        near(stored(&machine, 0, 100, 128 * GIB), 1.0);
        near(stored(&machine, 0, 1, 24 * GIB), 1.0);
        (machine.requests_under_way, machine.stripe_count) = (2.0, 4.0);
        near(stored(&machine, 0, 1, GIB), 1024.0 / 8.0 * 1e-3);
        near(stored(&machine, 1, 1, 1), 1e-3);
        assert_eq!(stored(&machine, 0, 1, 0), 0.0);
    }
}

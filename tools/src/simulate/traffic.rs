//! How much travels under a plan: counted from windows and runs, never piece by piece.

use super::engine::Request;
use super::grid::Grid;
use super::runs;
use agg_core::Extent;
use aggio_patterns::{Access, Call};
use std::collections::{BTreeSet, HashMap};

/// Runs of all ranks together, and looks into domains, from which exact counting takes too long.
const PATIENCE: u64 = 1 << 26;

/// The senders of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Senders {
    /// One rank of each node for all of them: ranks of a node meet in its memory.
    Nodes,
    /// Every rank for itself.
    Ranks,
}

/// The messages and bytes of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Messages with data of a window, to another rank.
    pub(crate) messages: u64,
    /// Those to another node.
    pub(crate) messages_between: u64,
    /// Of these, those of windows in which the sender has data.
    pub(crate) filled: u64,
    /// Data bytes to another rank.
    pub(crate) bytes: u64,
    /// Those to another node.
    pub(crate) bytes_between: u64,
    /// (Sender, domain) pairs: how many partners all senders have.
    pub(crate) partners: u64,
    /// Windows in which anybody has data.
    pub(crate) windows: u64,
}

/// Data bytes of a rank that need not travel.
#[derive(Clone, Copy, Default)]
struct Home {
    /// Because the aggregator is on the rank's node.
    node: u64,
    /// Because they need no message.
    rank: u64,
}

/// Counts rank after rank, in order.
pub(crate) struct Traffic {
    grid: Grid,
    senders: Senders,
    limit: u64,
    /// Whether counts are exact; upper bounds else.
    exact: bool,
    /// For each node, the domains of its aggregators.
    of_node: HashMap<u64, Vec<usize>>,
    of_rank: HashMap<u64, usize>,
    counts: Counts,
    /// Windows of the sender at hand, as ranges of numbers.
    own: Vec<(u64, u64)>,
    all: Vec<(u64, u64)>,
    node: u64,
}

impl Traffic {
    /// Nothing counted yet. `aggregators[d]` is the rank in charge of domain `d`; `pieces` is how
    /// many pieces all ranks have.
    pub(crate) fn new(
        grid: Grid,
        senders: Senders,
        aggregators: &[usize],
        ranks_per_node: u64,
        pieces: u64,
    ) -> Self {
        let mut of_node: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut of_rank = HashMap::new();
        for (domain, rank) in aggregators.iter().take(grid.domains()).enumerate() {
            of_node.entry(*rank as u64 / ranks_per_node).or_default().push(domain);
            of_rank.insert(*rank as u64, domain);
        }
        let fine = grid.harmless_gap();
        let exact = pieces <= PATIENCE || fine + 1 >= grid.size();
        let limit = if exact { fine } else { grid.size() - 1 };
        Self {
            grid,
            senders,
            limit,
            exact,
            of_node,
            of_rank,
            counts: Counts::default(),
            own: Vec::new(),
            all: Vec::new(),
            node: 0,
        }
    }

    /// The windows.
    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Adds the access of `rank` on `node` in `call`; `request` is the same for the engine.
    pub(crate) fn add(
        &mut self,
        rank: u64,
        node: u64,
        access: &Access,
        call: Call,
        request: Request<'_>,
    ) {
        if self.senders == Senders::Nodes && node != self.node {
            self.end_of_sender(None);
        }
        self.node = node;
        let (grid, own) = (&self.grid, &mut self.own);
        let (mut start, mut end) = (None, 0);
        runs::visit(&access.view, call, self.limit, &mut |run| {
            start = start.or(Some(run.offset));
            end = run.end();
            push(own, (grid.index(run.offset), grid.index(run.end() - 1)));
        });
        let Some(start) = start else { return };
        let span = Extent::between(start, end);
        let home = self.bytes_at_home(node, rank, span, request);
        self.counts.bytes_between += request.bytes - home.node;
        self.counts.bytes += request.bytes - home.rank;
        if self.senders == Senders::Ranks {
            self.end_of_sender(Some(rank));
        }
    }

    /// Data bytes that stay on the sender's own node, or with the sender itself: their aggregator
    /// is there.
    fn bytes_at_home(&mut self, node: u64, rank: u64, span: Extent, request: Request<'_>) -> Home {
        let domains = self.of_node.get(&node).map_or(&[][..], Vec::as_slice);
        let own = match self.senders {
            Senders::Nodes => None,
            Senders::Ranks => self.of_rank.get(&rank),
        };
        // Too many looks for every rank: in proportion.
        let exact = self.grid.parts_of_domain(span) * domains.len() as u64 <= 1 << 14;
        self.exact &= exact;
        let share = |len| u128::from(request.bytes) * u128::from(len) / u128::from(span.len);
        let mut home = Home::default();
        for domain in domains {
            let mut bytes = 0;
            self.grid.visit_domain(*domain, span, &mut |part| {
                bytes += if exact { request.within(part) } else { share(part.len) as u64 };
            });
            home.node += bytes;
            home.rank += if own == Some(domain) { bytes } else { 0 };
        }
        if self.senders == Senders::Nodes {
            home.rank = home.node;
        }
        home
    }

    fn end_of_sender(&mut self, rank: Option<u64>) {
        if self.own.is_empty() {
            return;
        }
        let touched = union(std::mem::take(&mut self.own));
        // A node only announces where its data begins and ends: it sends a message, maybe an empty
        // one, for every window between.
        let own = match (self.senders, &touched[..]) {
            (Senders::Nodes, [(first, _), .., (_, last)]) => vec![(*first, *last)],
            _ => touched.clone(),
        };
        let total = length(&own);
        let home = self.of_node.get(&self.node).map_or(&[][..], Vec::as_slice);
        let at_home = |ranges: &[(u64, u64)]| -> u64 {
            home.iter().map(|domain| self.windows_of(*domain, ranges)).sum()
        };
        let filled = length(&touched) - at_home(&touched);
        let at_home = at_home(&own);
        let by_itself = match rank {
            None => at_home,
            Some(rank) => {
                self.of_rank.get(&rank).map_or(0, |domain| self.windows_of(*domain, &own))
            }
        };
        self.counts.messages += total - by_itself;
        self.counts.messages_between += total - at_home;
        self.counts.filled += filled;
        self.counts.partners += self.partners(&own, total);
        for range in touched {
            push(&mut self.all, range);
        }
        if self.all.len() > 1 << 20 {
            self.all = union(std::mem::take(&mut self.all));
        }
    }

    /// How many domains the windows in `ranges` belong to; these are `total` windows.
    fn partners(&self, ranges: &[(u64, u64)], total: u64) -> u64 {
        if let Grid::Cyclic { domains, .. } = self.grid {
            if total >= domains && ranges.iter().any(|(first, last)| last - first + 1 >= domains) {
                return domains;
            }
            let numbers = ranges.iter().flat_map(|(first, last)| *first..=*last);
            let different: BTreeSet<u64> = numbers.map(|window| window % domains).collect();
            return different.len() as u64;
        }
        let (mut partners, mut next) = (0, 0);
        for (first, last) in ranges {
            let first = self.grid.domain_of(*first).max(next);
            let last = self.grid.domain_of(*last);
            partners += (last + 1).saturating_sub(first);
            next = next.max(last + 1);
        }
        partners
    }

    /// How many windows of `domain` are in `ranges`, which ascend.
    fn windows_of(&self, domain: usize, ranges: &[(u64, u64)]) -> u64 {
        if let Grid::Cyclic { domains, .. } = self.grid {
            let below = |n: u64| (n + domains - 1 - domain as u64) / domains;
            return ranges.iter().map(|(first, last)| below(last + 1) - below(*first)).sum();
        }
        let mut count = 0;
        let everything = Extent::between(0, u64::MAX);
        self.grid.visit_domain(domain, everything, &mut |part| {
            let (low, high) = (self.grid.index(part.offset), self.grid.index(part.end() - 1));
            let first = ranges.partition_point(|(_, last)| *last < low);
            let inside = ranges[first..].iter().take_while(|(start, _)| *start <= high);
            count += inside.map(|(start, end)| end.min(&high) - start.max(&low) + 1).sum::<u64>();
        });
        count
    }

    /// The counts, when all ranks have been added.
    pub(crate) fn finish(mut self) -> (Counts, bool) {
        self.end_of_sender(None);
        self.counts.windows = length(&union(self.all));
        (self.counts, self.exact)
    }
}

/// Adds a range that does not start before the last one, if possible without a new entry.
fn push(ranges: &mut Vec<(u64, u64)>, (first, last): (u64, u64)) {
    match ranges.last_mut() {
        Some((start, end)) if *start <= first && first <= *end + 1 => *end = last.max(*end),
        _ => ranges.push((first, last)),
    }
}

/// The same numbers in ascending ranges that do not touch.
fn union(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined = Vec::new();
    for range in ranges {
        push(&mut joined, range);
    }
    joined
}

/// How many numbers are in `ranges`.
fn length(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|(first, last)| last - first + 1).sum()
}

//! Parts of a collective call through the memory of nodes, each by itself.

mod data;
mod lost;
mod marks;
mod window_plan;

use super::Party;
use super::window_plan::WindowPlan;
use crate::exchange::{Heard, hear, step};
use aggio_base::Extent;
use aggio_comm::node::{Map, Operation};
use aggio_comm::tags::Tags;
use aggio_comm::task::BoxFuture;
use aggio_comm::transport::threads::testing::run;
use aggio_comm::transport::{Nodes, Transport};
use aggio_plan::plan::chunks::{Chunks, Exchanged, Rule};
use aggio_plan::plan::node_aggregation::Premises;
use aggio_plan::plan::{Summary, Total};
use aggio_types::datatype::Datatype;
use aggio_types::view::{Representation, View};

/// Bytes of a window.
const WINDOW: u64 = 64;

/// The requests of the ranks of a call, on each node.
#[derive(Debug)]
struct World {
    maps: Vec<Map>,
    /// The summaries of the ranks of each node.
    members: Vec<Vec<Summary>>,
    nodes: Vec<Extent>,
    total: Total,
    aggregators: Vec<usize>,
    exchanged: Option<Exchanged>,
}

impl World {
    /// Rank `i` runs on host `hosts[i]` and has all bytes from the first to the last of `spans[i]`.
    fn new(hosts: &[usize], spans: &[(u64, u64)], aggregators: &[usize]) -> Self {
        let of = Nodes::by_name(hosts.iter().copied().map(Some));
        let maps: Vec<Map> = (0..hosts.len()).map(|rank| Map::new(&of, rank)).collect();
        let summary = |rank: &usize| {
            let span = Extent::between(spans[*rank].0, spans[*rank].1);
            Summary { span, bytes: span.len, pieces: 1, grain: 3, ..Summary::default() }
        };
        let of_node = |node| maps[0].members_of(node).iter().map(summary).collect();
        let members: Vec<Vec<Summary>> = (0..of.count()).map(of_node).collect();
        let totals: Vec<Total> = members.iter().map(|node| Total::of(node)).collect();
        let nodes = totals.iter().map(|node| node.hull).collect();
        let (total, aggregators) = (Total::join(&totals), aggregators.to_vec());
        Self { maps, members, nodes, total, aggregators, exchanged: None }
    }

    /// Only these parts of the file go through windows.
    fn exchanging(self, parts: &[(u64, u64)]) -> Self {
        Self { exchanged: Some(exchanged(parts)), ..self }
    }

    fn ranks(&self) -> std::ops::Range<usize> {
        0..self.maps.len()
    }

    /// The plan of `rank`, with file domains of whole windows.
    fn plan(&self, rank: usize) -> WindowPlan<'_> {
        self.try_plan(rank).expect("windows that are not sparse")
    }

    fn try_plan(&self, rank: usize) -> Option<WindowPlan<'_>> {
        let premises = Premises {
            unit: WINDOW,
            least: 0,
            buffer_size: WINDOW,
            map: None,
            shares_units: false,
        };
        let map = &self.maps[rank];
        let (members, nodes) = (&self.members[map.node()], &self.nodes);
        let party = Party { members, nodes, total: self.total };
        let (exchanged, aggregators) = (self.exchanged.as_ref(), self.aggregators.clone());
        WindowPlan::new(map, party, exchanged, aggregators, premises, |_| WINDOW)
    }
}

/// These parts of the file, at least one, with bytes between them; the last one goes on forever if
/// it ends at `u64::MAX`.
fn exchanged(parts: &[(u64, u64)]) -> Exchanged {
    // Chunks that two ranks touch are exchanged, those of one rank are not.
    let shared: Vec<u64> = parts.iter().map(|part| part.0).collect();
    let mut all: Vec<u64> = parts.iter().flat_map(|part| [part.0, part.1]).collect();
    if parts[0].0 > 0 {
        all.insert(0, 0);
    }
    let all = Chunks::of_rank(0, Some(&all));
    let both = Chunks::combine(&all, &Chunks::of_rank(1, Some(&shared)));
    let chunks = Chunks::from_bytes(&both).expect("known chunks");
    chunks.exchanged(Extent::new(0, u64::MAX), 2, Rule::Shared(0))
}

/// A view of records of `len` bytes, the first at byte `start`, `every` bytes apart.
fn records(start: u64, len: u64, every: u64) -> View {
    let record = Datatype::bytes(len).resized(0, every as i64).expect("a small extent");
    View::new(start, Datatype::bytes(1), record, Representation::Native, true)
        .expect("an ascending filetype")
}

/// Runs `body` on this number of ranks of one node, in one operation, and returns the results.
fn in_operation<T: Send + 'static, F>(ranks: usize, body: F) -> Vec<T>
where
    F: for<'o> Fn(&'o Operation<'o>, usize) -> BoxFuture<'o, T> + Copy + Send + Sync + 'static,
{
    run(ranks, |transport| {
        Box::pin(async move {
            let tags = Tags::new(transport.max_tag()).next();
            let mine = Summary { kind: 2, bytes: 1, span: Extent::new(0, 1), ..Summary::default() };
            let heard = hear(&*transport, &tags, mine, None).await;
            let Heard { meeting, .. } = heard.expect("all are in one operation");
            let operation = meeting.operation().expect("threads share memory");
            let result = body(operation, transport.rank()).await;
            meeting.agree(step::AGREE, Ok(())).await.expect("nobody fails");
            result
        })
    })
}

#[test]
fn the_exchanged_parts_of_a_world_are_those_given() {
    let of = |parts: &[(u64, u64)]| {
        let within = |part: Extent| (part.offset, part.end());
        exchanged(parts).parts(Extent::new(0, 1 << 40)).map(within).collect::<Vec<_>>()
    };
    for parts in [&[(0, 64)][..], &[(32, 64)], &[(0, 100), (200, 256), (300, 301)]] {
        assert_eq!(of(parts), parts);
    }
}

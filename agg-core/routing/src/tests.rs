//! Random decompositions on both sides against a byte oracle.

use crate::{Decision, Digest, Matcher, Order, Replay, Route, Run, Shards, compress, pieces};
use aggio_base::Extent;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A block of an array: for each dimension its length, and the first and the number of elements.
type Block = Vec<(u64, u64, u64)>;

/// The extents of a block of elements of `size` bytes, in file order.
fn extents(block: &Block, size: u64) -> Vec<Extent> {
    let mut offsets = vec![0];
    for (at, (length, first, count)) in block.iter().enumerate() {
        let last = at + 1 == block.len();
        let each = if last { vec![*first] } else { (*first..first + count).collect() };
        let scaled = |offset: &u64| each.iter().map(|i| offset * length + i).collect::<Vec<_>>();
        offsets = offsets.iter().flat_map(scaled).collect();
    }
    let row = block.last().map_or(0, |(_, _, count)| count * size);
    offsets.into_iter().map(|offset| Extent::new(offset * size, row)).collect()
}

/// Cuts each dimension into the given number of parts: the blocks of all members.
fn decompose(shape: &[u64], parts: &[u64]) -> Vec<Block> {
    let mut blocks: Vec<Block> = vec![Vec::new()];
    for (length, parts) in shape.iter().zip(parts) {
        let cut = |at: u64| length * at / parts;
        let with = |block: &Block| {
            let part = |at| (*length, cut(at), cut(at + 1) - cut(at));
            (0..*parts).map(|at| [block.clone(), vec![part(at)]].concat()).collect::<Vec<_>>()
        };
        blocks = blocks.iter().flat_map(with).collect();
    }
    blocks
}

/// Both sides of a generation: the runs that each member writes or reads.
#[derive(Clone, Debug)]
struct Case {
    writes: Vec<(Order, Vec<Run>)>,
    reads: Vec<Vec<Run>>,
    shards: Shards,
    size: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let shape = prop::collection::vec(1..9_u64, 1..=3);
    let parts = || prop::collection::vec(1..4_u64, 3);
    let extra = prop::collection::vec((0..700_u64, 1..90_u64, 0..4_u64, 0..3_u32), 0..4);
    let wild = prop::collection::vec((0..700_u64, 1..200_u64), 0..3);
    (shape, parts(), parts(), 1..5_u64, extra, wild, 1..300_u64, 1..6_u32).prop_map(
        |(shape, ours, theirs, size, extra, wild, block, matchers)| {
            let runs = |block: &Block| compress(extents(block, size));
            let order = |sequence, rank| Order { sequence, rank };
            let mut writes: Vec<(Order, Vec<Run>)> = (decompose(&shape, &ours).iter())
                .zip(0..)
                .map(|(block, rank)| (order(1, rank), runs(block)))
                .collect();
            // Later writes over existing bytes, by any rank.
            for (offset, len, sequence, rank) in extra {
                let runs = compress([Extent::new(offset, len)]);
                writes.push((order(sequence, rank + 100), runs));
            }
            let mut reads: Vec<Vec<Run>> = decompose(&shape, &theirs).iter().map(runs).collect();
            reads.extend(wild.into_iter().map(|(at, len)| compress([Extent::new(at, len)])));
            Case { writes, reads, shards: Shards::new(block, matchers), size: 4096 }
        },
    )
}

/// Which write each byte is of, one byte at a time.
fn oracle(case: &Case) -> Vec<Option<u32>> {
    let mut bytes: Vec<Option<(Order, u32)>> = vec![None; case.size as usize];
    for ((order, runs), source) in case.writes.iter().zip(0..) {
        for at in pieces(runs).flat_map(|extent| extent.offset..extent.end()) {
            let byte = &mut bytes[at as usize];
            *byte = (*byte).max(Some((*order, source)));
        }
    }
    bytes.into_iter().map(|byte| byte.map(|(_, source)| source)).collect()
}

/// Matches all reads, and counts messages.
fn routes(case: &Case) -> Vec<Route> {
    let new = || Matcher::new(Matcher::MOST);
    let mut matchers: Vec<Matcher> = (0..case.shards.matchers()).map(|_| new()).collect();
    for ((order, runs), source) in case.writes.iter().zip(0..) {
        for (matcher, part) in case.shards.split(runs) {
            matchers[matcher as usize].write(source, *order, &part).unwrap();
        }
    }
    let mut routes = Vec::new();
    for (runs, destination) in case.reads.iter().zip(0..) {
        for (matcher, part) in case.shards.split(runs) {
            let found = matchers[matcher as usize].find(&part);
            let route =
                |found: crate::Found| Route { source: found.source, destination, runs: found.runs };
            routes.extend(found.into_iter().map(route));
        }
    }
    routes
}

/// The writer of each byte that a reader gets by these routes.
fn delivered(case: &Case, routes: &[Route], destination: u32) -> Vec<Option<u32>> {
    let mut bytes = vec![None; case.size as usize];
    for route in routes.iter().filter(|route| route.destination == destination) {
        for at in pieces(&route.runs).flat_map(|extent| extent.offset..extent.end()) {
            assert_eq!(bytes[at as usize], None, "byte {at} is sent twice");
            bytes[at as usize] = Some(route.source);
        }
    }
    bytes
}

fn check(case: &Case, routes: &[Route]) {
    let truth = oracle(case);
    for (runs, destination) in case.reads.iter().zip(0..) {
        let found = delivered(case, routes, destination);
        let wanted = pieces(runs).flat_map(|extent| extent.offset..extent.end());
        let mut expected = vec![None; case.size as usize];
        wanted.for_each(|at| expected[at as usize] = truth[at as usize]);
        assert_eq!(found, expected, "reader {destination}");
    }
}

fn digests(sides: impl Iterator<Item = Vec<Run>>) -> BTreeMap<u32, Digest> {
    (0..).zip(sides).map(|(member, runs)| (member, Digest::of(&runs))).collect()
}

fn writes(case: &Case) -> BTreeMap<u32, Digest> {
    let with_order = |(order, runs): &(Order, Vec<Run>)| {
        let order = Run { start: order.sequence, len: order.rank.into(), stride: 0, count: 0 };
        [&[order][..], runs].concat()
    };
    digests(case.writes.iter().map(with_order))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_is_told_who_has_the_newest_of_each_byte(case in case()) {
        check(&case, &routes(&case));
    }

    #[test]
    fn runs_are_the_extents_that_they_were_made_of(
        steps in prop::collection::vec((0..20_u64, 0..9_u64), 0..40),
        (at, len) in (0..400_u64, 0..300_u64),
    ) {
        let mut end = 0;
        let extents: Vec<Extent> = steps.iter().map(|(gap, len)| {
            let extent = Extent::new(end + gap, *len);
            end = extent.end();
            extent
        }).collect();
        let bytes = |runs: &[Run]| -> Vec<u64> {
            pieces(runs).flat_map(|extent| extent.offset..extent.end()).collect()
        };
        let runs = compress(extents.clone());
        let expected: Vec<u64> = extents.iter().flat_map(|e| e.offset..e.end()).collect();
        prop_assert_eq!(bytes(&runs), expected.clone());
        let range = Extent::new(at, len);
        let clipped: Vec<Run> = runs.iter().flat_map(|run| run.clip(range)).collect();
        let inside = expected.iter().copied().filter(|byte| (at..at + len).contains(byte));
        prop_assert_eq!(bytes(&clipped), inside.collect::<Vec<_>>());
        for run in &runs {
            prop_assert!(run.count == 1 || run.stride > run.len);
            let next = run.pieces().flat_map(|e| e.offset..e.end()).find(|byte| *byte >= at);
            prop_assert_eq!(run.next_byte(at), next.unwrap_or(run.hull().end().max(at)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_pushed_is_what_would_be_found_whatever_changes(
        cases in prop::collection::vec(case(), 2..4),
        order in prop::collection::vec((0..4_usize, 0..4_usize), 4..12),
    ) {
        let mut replay = Replay::default();
        let mut before = None;
        for (ours, theirs) in order {
            let (ours, theirs) = (ours % cases.len(), theirs % cases.len());
            let now = Case { reads: cases[theirs].reads.clone(), ..cases[ours].clone() };
            let decision = replay.complete(&writes(&now));
            let reads = digests(now.reads.iter().cloned());
            let as_before = replay.read(&reads);
            match decision {
                // Both as before: no requests were sent.
                Decision::Push(routes) if as_before => {
                    check(&now, &routes);
                }
                _ => {
                    prop_assert_ne!(before, Some((ours, theirs)), "what repeats is pushed");
                    replay.learn(&reads, routes(&now));
                }
            }
            before = Some((ours, theirs));
        }
    }
}

#[test]
fn a_full_index_refuses_what_it_cannot_hold_and_keeps_what_it_has() {
    let mut matcher = Matcher::new(Matcher::bytes_for(2));
    let order = Order { sequence: 1, rank: 0 };
    let runs = [0, 100, 250].map(|at| Run::one(Extent::new(at, 10)));
    matcher.write(7, order, &runs[..2]).unwrap();
    let full = matcher.write(8, order, &runs[2..]).unwrap_err();
    assert!(full.to_string().contains("more than"), "{full}");
    assert_eq!(matcher.find(&runs).len(), 1);
    assert_eq!(matcher.bytes(), Matcher::bytes_for(2));
}

#[test]
fn blocks_and_matchers_follow_from_the_size_unless_they_are_set() {
    let shards = Shards::choose(1 << 30, 16, None, None);
    assert_eq!((shards.block(), shards.matchers()), (256 << 20, 4));
    let small = Shards::choose(100_000, 16, None, None);
    assert_eq!((small.block(), small.matchers()), (64 << 10, 2));
    let set = Shards::choose(1 << 30, 16, Some(1 << 20), Some(3));
    assert_eq!((set.block(), set.matchers()), (1 << 20, 3));
    assert_eq!([0, 1, 2, 3].map(|block| set.of(block << 20)), [0, 1, 2, 0]);
    assert_eq!(Shards::choose(0, 0, None, None).matchers(), 1);
}

#[test]
fn a_regular_block_of_three_dimensions_is_few_runs() {
    let block = vec![(100, 10, 20), (100, 30, 50), (100, 0, 25)];
    assert_eq!(compress(extents(&block, 8)).len(), 20, "one run a plane");
    let rows = vec![(1000, 10, 20), (1000, 30, 50)];
    assert_eq!(compress(extents(&rows, 8)).len(), 1, "rows of two dimensions are one run");
}

/// The runs of the ranks of each node together, in file order.
fn of_nodes(blocks: &[Block], size: u64, ranks_per_node: usize) -> Vec<Vec<Run>> {
    let node = |ranks: &[Block]| {
        let mut all: Vec<Extent> = ranks.iter().flat_map(|block| extents(block, size)).collect();
        all.sort_by_key(|extent| extent.offset);
        compress(all)
    };
    blocks.chunks(ranks_per_node).map(node).collect()
}

#[test]
fn ten_thousand_writers_and_a_thousand_readers_need_few_messages_and_little_memory() {
    // Arrays, how writers and readers cut them: blocks to slabs, blocks to blocks, 3-D to 1-D.
    let cases: [(&[u64], &[u64], &[u64]); 4] = [
        (&[10_000, 4_000], &[100, 100], &[1000, 1]),
        (&[10_000, 4_000], &[100, 100], &[40, 25]),
        (&[220, 250, 400], &[20, 25, 20], &[1000, 1, 1]),
        (&[400, 250, 220], &[20, 25, 20], &[10, 10, 10]),
    ];
    for (shape, ours, theirs) in cases {
        let size = shape.iter().product::<u64>() * 8;
        let [writes, reads] = [ours, theirs].map(|parts| of_nodes(&decompose(shape, parts), 8, 64));
        let agents = writes.len() as u32;
        let shards = Shards::choose(size, agents, None, None);
        let forecast = crate::forecast(shards, &writes, &reads).unwrap();
        println!("{shape:?} {ours:?} -> {theirs:?}: {forecast:?}");
        assert_eq!(forecast.found, reads.iter().flatten().map(Run::bytes).sum::<u64>());
        assert!(forecast.matching <= 64, "{forecast:?}");
        assert_eq!(forecast.repeated, 0);
        assert!(forecast.index <= 1 << 20, "{forecast:?}");
    }
}

//! Counts against a walk along every piece of every rank.

use super::*;
use agg_core::Extent;
use agg_core::plan::{Domains, Sequence};
use std::collections::BTreeSet;

const PATTERNS: &[&str] = &[
    "contiguous,bytes=100003",
    "interleaved,piece=8,bytes=64K",
    "interleaved,piece=1000,bytes=256K",
    "strided,piece=16,hole=48,bytes=16K",
    "strided,piece=700,hole=3000,bytes=64K",
    "blocks,array=64x65,element=8",
    "blocks,array=17x16x15,element=8",
    "blocks,array=4x8x6x7,element=48,order=fortran",
    "records,record=470,bytes=64K",
    "variables,count=5,piece=300",
    "columns,arrays=6,rows=5,width=40,lead=70",
    "random,slot=640,bytes=64K,seed=3",
];

fn small(per_node: u64, writes: &str) -> Machine {
    let mut machine = Machine::preset("lustre").expect("a preset");
    machine.read(writes).expect("properties");
    machine.ranks_per_node = per_node as f64;
    machine
}

fn setting<'a>(
    machine: &'a Machine,
    ranks: u64,
    buffer: u64,
    aggregators: &'a [usize],
    romio: &'a [usize],
) -> Setting<'a> {
    Setting {
        machine,
        ranks,
        nodes: machine.nodes_for(ranks).expect("enough nodes"),
        writes: true,
        aggregators,
        romio_aggregators: romio,
        buffer: Some(buffer),
        named: false,
    }
}

fn chosen(ranks: u64, per_node: u64, list: Option<&str>) -> Vec<usize> {
    let hosts: Vec<String> = (0..ranks).map(|rank| format!("{}", rank / per_node)).collect();
    aggregators::choose(&hosts, list, 0).expect("aggregators")
}

/// One call of every rank as its pieces.
type Pieces = [Vec<Extent>];

fn pieces(pattern: &Pattern, ranks: u64, call: usize) -> Vec<Vec<Extent>> {
    let of = |rank| {
        let access = pattern.access(rank, ranks);
        let mut pieces = Vec::new();
        let call = access.calls[call];
        access.view.for_each_piece(call.position, call.bytes, &mut |piece| {
            pieces.push(Extent::new(piece.offset, piece.len));
        });
        pieces
    };
    (0..ranks).map(of).collect()
}

/// Walks along all pieces; `window` and `domain` of a byte decide. Counts the same as `traffic.rs`.
fn walked(
    pieces: &Pieces,
    per_node: u64,
    by_node: bool,
    aggregators: &[usize],
    windows: &[(Extent, usize)],
) -> traffic::Counts {
    let mut sent: BTreeSet<(u64, usize, usize, bool, bool)> = BTreeSet::new();
    let (mut bytes, mut bytes_between, mut touched) = (0, 0, BTreeSet::new());
    for (rank, pieces) in (0u64..).zip(pieces) {
        let node = rank / per_node;
        for piece in pieces {
            for (number, (window, domain)) in windows.iter().enumerate() {
                let part = window.intersect(*piece);
                if part.is_empty() {
                    continue;
                }
                touched.insert(number);
                let aggregator = aggregators[*domain] as u64;
                let between = aggregator / per_node != node;
                bytes_between += if between { part.len } else { 0 };
                let itself = if by_node { !between } else { aggregator == rank };
                bytes += if itself { 0 } else { part.len };
                sent.insert((if by_node { node } else { rank }, number, *domain, between, itself));
            }
        }
    }
    let filled = sent.iter().filter(|(.., between, _)| *between).count() as u64;
    if by_node {
        // Every window from the first to the last one with data of the node.
        for (node, parts) in (0u64..).zip(pieces.chunks(per_node as usize)) {
            let all = hull(parts);
            for (number, (window, domain)) in windows.iter().enumerate() {
                let between = aggregators[*domain] as u64 / per_node != node;
                if !window.intersect(all).is_empty() {
                    sent.insert((node, number, *domain, between, !between));
                }
            }
        }
    }
    let partners: BTreeSet<_> =
        sent.iter().map(|(sender, _, domain, ..)| (sender, domain)).collect();
    traffic::Counts {
        messages: sent.iter().filter(|(.., itself)| !itself).count() as u64,
        messages_between: sent.iter().filter(|(.., between, _)| *between).count() as u64,
        filled,
        bytes,
        bytes_between,
        partners: partners.len() as u64,
        windows: touched.len() as u64,
    }
}

fn hull(pieces: &Pieces) -> Extent {
    let start = pieces.iter().flatten().map(|piece| piece.offset).min().unwrap_or(0);
    let end = pieces.iter().flatten().map(|piece| piece.end()).max().unwrap_or(0);
    Extent::between(start, end)
}

fn check(
    what: &str,
    setting: &Setting<'_>,
    pattern: &Pattern,
    grid: Grid,
    senders: Senders,
    aggregators: &[usize],
    windows: &[(Extent, usize)],
) {
    let (ranks, per_node) = (setting.ranks, setting.per_node());
    let mut counted = Traffic::new(grid, senders, aggregators, per_node, 0);
    for rank in 0..ranks {
        let access = pattern.access(rank, ranks);
        let view = engine::view(&access.view).expect("a view");
        let call = access.calls[0];
        if call.bytes > 0 {
            let request = Request { view: &view, position: call.position, bytes: call.bytes };
            counted.add(rank, setting.node(rank), &access, call, request);
        }
    }
    let by_node = senders == Senders::Nodes;
    let expected = walked(&pieces(pattern, ranks, 0), per_node, by_node, aggregators, windows);
    let (counts, exact) = counted.finish();
    assert!(exact, "{what}");
    assert_eq!(counts, expected, "{what}");
}

use grid::Grid;
use traffic::Senders;

#[test]
fn messages_and_bytes_are_those_of_a_walk_along_all_pieces() {
    for text in PATTERNS {
        let pattern: Pattern = text.parse().expect(text);
        for (ranks, per_node, buffer) in [(4, 4, 1000), (12, 5, 512), (24, 4, 4096), (33, 8, 700)] {
            let machine = small(per_node, "stripe_size=0\nblock_size=128");
            let own = chosen(ranks, per_node, None);
            let romio = chosen(ranks, per_node, Some("*:1"));
            let setting = setting(&machine, ranks, buffer, &own, &romio);
            let hull = hull(&pieces(&pattern, ranks, 0));
            let what = format!("{text}, {ranks} ranks, {per_node} on a node, windows of {buffer}");

            let domains = Domains::new(hull, own.len(), 128, 0);
            let sequence = Sequence::new(domains.clone(), buffer);
            let windows: Vec<_> = (0..sequence.count() as u32)
                .map(|window| (sequence.extent(window), sequence.domain(window)))
                .collect();
            let grid = Grid::sequence(Sequence::new(domains, buffer));
            check(&what, &setting, &pattern, grid, Senders::Nodes, &own, &windows);

            let domain = hull.len.div_ceil(romio.len() as u64);
            let mut windows = Vec::new();
            for (number, start) in (hull.offset..hull.end()).step_by(domain as usize).enumerate() {
                let end = (start + domain).min(hull.end());
                windows.extend(
                    (start..end)
                        .step_by(buffer as usize)
                        .map(|start| (Extent::between(start, (start + buffer).min(end)), number)),
                );
            }
            let grid = Grid::Even { hull, domain, buffer };
            let what = format!("romio: {what}");
            check(&what, &setting, &pattern, grid, Senders::Ranks, &romio, &windows);

            let (first, last) = (hull.offset / buffer, hull.end().div_ceil(buffer));
            let count = romio.len() as u64;
            let windows: Vec<_> = (first..last)
                .map(|number| (Extent::new(number * buffer, buffer), (number % count) as usize))
                .collect();
            let grid = Grid::Cyclic { hull, stripe: buffer, domains: count };
            if windows.len() as u64 >= count {
                let what = format!("lustre: {what}");
                check(&what, &setting, &pattern, grid, Senders::Ranks, &romio, &windows);
            }
        }
    }
}

fn predicted(text: &str, ranks: u64, per_node: u64) -> Vec<Prediction> {
    let machine = small(per_node, "");
    let own = chosen(ranks, per_node, None);
    let romio = chosen(ranks, per_node, Some("*:1"));
    let mut setting = setting(&machine, ranks, 1 << 24, &own, &romio);
    setting.buffer = None;
    predict(&setting, &text.parse().expect(text)).expect("a prediction")
}

#[test]
fn a_node_alone_sends_no_messages_and_waits_for_none() {
    let plans = predicted("interleaved,piece=1K,bytes=16M", 8, 8);
    let aggio = &plans[0];
    assert_eq!((aggio.counts.messages, aggio.latency_steps, aggio.requests), (0, 0, 16));
    assert!(aggio.requests_exact && aggio.exact);
    // 7 of 8 ranks send to the one aggregator, in one round.
    assert_eq!((plans[1].counts.messages, plans[1].rounds, plans[1].requests), (7, 1, 1));
}

#[test]
fn separate_large_parts_are_not_exchanged() {
    let plans = predicted("contiguous,bytes=64M", 16, 4);
    assert!(plans.iter().all(|plan| plan.counts.messages == 0 && plan.requests == 16));
}

#[test]
fn several_calls_add_up() {
    let plans = predicted("variables,count=3,piece=8K", 8, 4);
    let one = predicted("variables,count=1,piece=8K", 8, 4);
    assert_eq!(plans[0].latency_steps, 3 * one[0].latency_steps);
    assert_eq!(plans[0].requests, 3 * one[0].requests);
}

#[test]
fn a_hundred_thousand_ranks_need_little_state_and_few_steps() {
    let plans = predicted("interleaved,piece=1K,bytes=1G", 100_000, 128);
    assert!(plans[0].state_bytes <= 64 << 10, "{} bytes", plans[0].state_bytes);
    // 782 nodes: three steps of ten messages each.
    assert_eq!(plans[0].latency_steps, 30);
    assert!(plans[1].state_bytes > 10 << 20, "{} bytes", plans[1].state_bytes);
}

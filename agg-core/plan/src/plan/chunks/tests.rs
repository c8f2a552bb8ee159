//! Chunks against sets of bytes and of ranks.

use super::*;
use crate::format::pieces;
use crate::plan::{Domains, Guide};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The starts of the chunks that each rank touches.
type Touched = Vec<BTreeSet<u64>>;

fn touched() -> impl Strategy<Value = Touched> {
    let one = proptest::collection::btree_set((0..40u64).prop_map(|start| 5 * start), 0..12);
    proptest::collection::vec(one, 1..8)
}

fn told(touched: &Touched) -> Vec<Vec<u8>> {
    let all = touched.iter().enumerate().map(|(rank, starts)| {
        let starts: Vec<u64> = starts.iter().copied().collect();
        Chunks::of_rank(rank, Some(&starts))
    });
    all.collect()
}

fn together(touched: &Touched) -> Chunks {
    let all = told(touched).into_iter().reduce(|left, right| Chunks::combine(&left, &right));
    Chunks::from_bytes(&all.unwrap_or_default()).expect("all ranks know")
}

/// The ranks that touch each chunk.
fn model(touched: &Touched) -> BTreeMap<u64, BTreeSet<usize>> {
    let mut all: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for (rank, starts) in touched.iter().enumerate() {
        for start in starts {
            all.entry(*start).or_default().insert(rank);
        }
    }
    all
}

/// The ranks of the chunk with byte `at`.
fn ranks_at(model: &BTreeMap<u64, BTreeSet<usize>>, at: u64) -> Option<&BTreeSet<usize>> {
    let before = model.range(..=at).next_back();
    before.or_else(|| model.iter().next()).map(|(_, ranks)| ranks)
}

fn rules() -> impl Strategy<Value = Rule> {
    prop_oneof![
        Just(Rule::All),
        (0..60u64).prop_map(Rule::Shared),
        (0..=100u32).prop_map(Rule::Percent),
    ]
}

/// Whether the byte at `at` goes through aggregators, by counting bytes one by one.
fn passes(
    model: &BTreeMap<u64, BTreeSet<usize>>,
    hull: Extent,
    ranks: usize,
    rule: Rule,
    at: u64,
) -> bool {
    let Some(here) = ranks_at(model, at) else { return true };
    match rule {
        Rule::All | Rule::Percent(0) => true,
        Rule::Percent(percent) => here.len() > (ranks * percent as usize / 100).max(1),
        Rule::Shared(least) => {
            let alike = |at: &u64| here.len() == 1 && ranks_at(model, *at) == Some(here);
            let behind = (at..hull.end()).take_while(alike).count();
            let before = (hull.offset..at).rev().take_while(alike).count();
            here.len() > 1 || ((behind + before) as u64) < least
        }
    }
}

proptest! {
    #[test]
    fn what_ranks_tell_is_put_together_in_any_grouping(all in touched(), split in 0..8usize) {
        let told = told(&all);
        let (left, right) = told.split_at(split.min(told.len()));
        let sum = |part: &[Vec<u8>]| {
            part.iter().fold(Vec::new(), |all, one| Chunks::combine(&all, one))
        };
        let chunks = together(&all);
        let both = Chunks::combine(&sum(left), &sum(right));
        prop_assert_eq!(Chunks::from_bytes(&both), Some(chunks.clone()));
        let model = model(&all);
        let found: Vec<(u64, usize)> =
            chunks.0.iter().map(|chunk| (chunk.start, chunk.ranks as usize)).collect();
        let wanted: Vec<(u64, usize)> =
            model.iter().map(|(start, ranks)| (*start, ranks.len())).collect();
        prop_assert_eq!(found, wanted);
        let has = |chunk: &Chunk| model[&chunk.start].contains(&(chunk.rank as usize));
        prop_assert!(chunks.0.iter().all(has));
        let touched: usize = all.iter().map(BTreeSet::len).sum();
        prop_assert_eq!(chunks.mean(all.len()), (touched / all.len()) as u64);
    }

    #[test]
    fn chunks_go_through_aggregators_as_counting_bytes_finds(
        all in touched(), rule in rules(), at in 0..150u64, len in 1..120u64,
    ) {
        let (chunks, model, hull) = (together(&all), model(&all), Extent::new(at, len));
        let exchanged = chunks.exchanged(hull, all.len(), rule);
        let found: Vec<u64> = (0..300).filter(|at| exchanged.has(*at)).collect();
        let wanted = (hull.offset..hull.end())
            .filter(|at| passes(&model, hull, all.len(), rule, *at));
        prop_assert_eq!(found, wanted.collect::<Vec<_>>(), "{:?}", exchanged);
    }

    #[test]
    fn parts_and_the_rest_are_all_of_an_extent(
        all in touched(), rule in rules(), at in 0..300u64, len in 0..120u64,
    ) {
        let hull = Extent::new(20, 170);
        let exchanged = together(&all).exchanged(hull, all.len(), rule);
        let extent = Extent::new(at, len);
        let mut both: Vec<(Extent, bool)> =
            exchanged.parts(extent).map(|part| (part, true)).collect();
        both.extend(exchanged.rest(extent).map(|part| (part, false)));
        both.sort_unstable_by_key(|part| part.0.offset);
        let mut next = extent.offset;
        for (part, passes) in &both {
            prop_assert_eq!(part.offset, next);
            prop_assert!((part.offset..part.end()).all(|at| exchanged.has(at) == *passes));
            next = part.end();
        }
        prop_assert_eq!(next, extent.end());
        prop_assert_eq!(exchanged.touches(extent), both.iter().any(|part| part.1));
        prop_assert_eq!(exchanged.covers(extent), both.iter().all(|part| part.1));
        let unit = 1u64 << exchanged.grain(hull).min(40);
        for part in exchanged.parts(hull) {
            prop_assert!(part.offset == hull.offset || part.offset.is_multiple_of(unit));
            prop_assert!(part.end() == hull.end() || part.end().is_multiple_of(unit));
        }
    }

    #[test]
    fn chunks_are_a_map_of_the_file(all in touched(), at in 0..250u64, len in 0..100u64) {
        let (chunks, model) = (together(&all), model(&all));
        let mut next = at;
        for piece in pieces(&chunks, Extent::new(at, len)) {
            prop_assert_eq!(piece.extent.offset, next);
            next = piece.extent.end();
            let start = model.range(..=piece.extent.offset).next_back().map(|one| *one.0);
            match (&piece.thing, start) {
                (Thing::Gap, None) => {}
                (Thing::Data(data), Some(start)) => {
                    prop_assert_eq!(chunks.extent_of(data), Some(piece.extent));
                    prop_assert_eq!(data.elements.start, piece.extent.offset - start);
                }
                found => prop_assert!(false, "{:?}", found),
            }
            let inside = piece.extent.offset + 1..piece.extent.end();
            prop_assert_eq!(model.range(inside).next(), None);
        }
        prop_assert_eq!(next, at + len);
        let before = model.range(..=at).next_back().map(|one| *one.0);
        prop_assert_eq!(chunks.border_before(at), before);
        prop_assert_eq!(chunks.border_behind(at), model.range(at..).next().map(|one| *one.0));
    }

    #[test]
    fn each_chunk_that_fits_into_a_domain_has_one_aggregator(
        lengths in proptest::collection::vec(1..90u64, 1..60), aggregators in 1..9usize,
        header in 0..100u64, even in proptest::option::of(1..200u64),
    ) {
        let mut starts = vec![header];
        // Of different lengths, as after filters, or of one.
        let lengths: Vec<u64> = lengths.iter().map(|len| even.unwrap_or(*len)).collect();
        for len in &lengths {
            starts.push(starts[starts.len() - 1] + len);
        }
        let end = starts.pop().expect("an end");
        let chunks = Chunks::from_bytes(&Chunks::of_rank(0, Some(&starts))).expect("chunks");
        let hull = Extent::between(header, end);
        let evenly = Domains::new(hull, aggregators, 1, 0);
        let stride = evenly.extent(0).len;
        let domains = evenly.following(Guide { map: &chunks, unit: 1, least: 0 });
        for (index, len) in lengths.iter().enumerate() {
            let pairs = domains.touched_by(Extent::new(starts[index], *len)).len();
            prop_assert!(pairs == 1 || *len > stride, "{pairs} aggregators of {len} bytes");
        }
    }

    #[test]
    fn damaged_bytes_are_no_chunks(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
        let _ = Chunks::from_bytes(&bytes);
        let _ = Chunks::combine(&bytes, &Chunks::of_rank(0, Some(&[1, 2])));
    }
}

#[test]
fn a_file_of_1024_chunks_has_1024_pairs_of_an_aggregator_and_a_chunk() {
    // As HDF5 places them: behind each other, with an index between them now and then.
    let place = |number: u64| 2048 + number * 65_536 + number / 64 * 2096;
    let starts: Vec<u64> = (0..1024).map(place).collect();
    let chunks = Chunks::from_bytes(&Chunks::of_rank(0, Some(&starts))).expect("chunks");
    let hull = Extent::between(2048, place(1023) + 65_536);
    for aggregators in [1, 2, 3, 7, 16, 100, 1024] {
        let guide = Guide { map: &chunks, unit: 1, least: 0 };
        let domains = Domains::new(hull, aggregators, 1, 0).following(guide);
        let whole = |start: &u64| Extent::new(*start, 65_536);
        let pairs: usize = starts.iter().map(|at| domains.touched_by(whole(at)).len()).sum();
        assert_eq!(pairs, 1024, "{aggregators} aggregators");
        let evenly = Domains::new(hull, aggregators, 4096, 0);
        let cut: usize = starts.iter().map(|at| evenly.touched_by(whole(at)).len()).sum();
        assert!(aggregators == 1 || cut > 1024, "equal shares cut chunks");
    }
}

#[test]
fn chunks_longer_than_stripes_are_cut_where_stripes_begin_and_shorter_ones_share_them() {
    let starts: Vec<u64> = (0..16).map(|number| 777 + number * 1_000_000).collect();
    let chunks = Chunks::from_bytes(&Chunks::of_rank(0, Some(&starts))).expect("chunks");
    let hull = Extent::between(777, 16_000_777);
    let stripe = 65_536;
    let guide = Guide { map: &chunks, unit: stripe, least: 0 };
    let domains = Domains::new(hull, 4, stripe, 0).following(guide);
    for domain in 1..domains.count() {
        let border = domains.extent(domain).offset;
        assert!(border.is_multiple_of(stripe));
        let nearest = starts.iter().map(|start| start.abs_diff(border)).min();
        assert!(nearest.is_some_and(|nearest| nearest <= stripe / 2), "{border}");
    }
}

#[test]
fn who_does_not_know_its_chunks_leaves_all_without_them() {
    let known = Chunks::of_rank(0, Some(&[5, 9]));
    let unknown = Chunks::of_rank(1, None);
    assert_eq!(Chunks::from_bytes(&Chunks::combine(&known, &unknown)), None);
    assert_eq!(Chunks::from_bytes(&Chunks::combine(&unknown, &known)), None);
    let many: Vec<u64> = (0..=MOST as u64).collect();
    assert_eq!(Chunks::from_bytes(&Chunks::of_rank(0, Some(&many))), None);
    let (left, right) = many.split_at(many.len() / 2);
    let [left, right] = [left, right].map(|half| Chunks::of_rank(0, Some(half)));
    assert_eq!(Chunks::from_bytes(&Chunks::combine(&left, &right)), None);
}

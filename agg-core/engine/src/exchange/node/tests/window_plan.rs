//! The ranks that have data in a window, and those that deal with it.

use super::World;
use aggio_base::Extent;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Ranks 0 and 1 on one node, 2 and 3 on another; the aggregators are 0 and 2. Windows 0, 2, 4, ...
/// are those of the first half of the file.
const HOSTS: [usize; 4] = [0, 0, 1, 1];
const AGGREGATORS: [usize; 2] = [0, 2];

/// All ranks have all bytes of 1024.
fn even() -> World {
    World::new(&HOSTS, &[(0, 1024); 4], &AGGREGATORS)
}

fn all(windows: impl Iterator<Item = u32>) -> Vec<u32> {
    windows.collect()
}

#[test]
fn each_node_sends_the_windows_of_another_home_by_one_courier_a_domain() {
    let world = even();
    let plan = world.plan(0);
    assert_eq!((plan.count(), plan.extent(3)), (16, Extent::new(512 + 64, 64)));
    assert_eq!([0, 1, 2].map(|window| plan.home(window)), [0, 1, 0]);
    assert_eq!([0, 1].map(|window| plan.aggregator(window)), AGGREGATORS);
    assert_eq!([0, 1].map(|window| plan.courier(0, window)), [0, 1]);
    assert_eq!([0, 1].map(|window| plan.courier(1, window)), [2, 3]);
    let even: Vec<u32> = (0..16).step_by(2).collect();
    let odd: Vec<u32> = (1..16).step_by(2).collect();
    let carried = world.ranks().map(|rank| all(world.plan(rank).carried()));
    assert_eq!(carried.collect::<Vec<_>>(), [vec![], odd.clone(), even.clone(), vec![]]);
    let dealt_with = world.ranks().map(|rank| all(world.plan(rank).dealt_with()));
    assert_eq!(dealt_with.collect::<Vec<_>>(), [even, vec![], odd, vec![]]);
}

#[test]
fn at_home_the_aggregator_arrives_after_the_ranks_of_its_node() {
    let world = even();
    let (here, there) = (world.plan(1), world.plan(3));
    assert_eq!((here.is_home(0), there.is_home(0)), (true, false));
    assert_eq!((here.local(0), there.local(0)), (2, 2));
    assert_eq!((here.expected(0), there.expected(0)), (3, 2));
    assert_eq!((here.expected(1), there.expected(1)), (2, 3));
    assert_eq!((all_of(&here, 0), all_of(&there, 0)), (vec![1], vec![0]));
}

/// The other nodes of a window.
fn all_of(plan: &super::WindowPlan<'_>, window: u32) -> Vec<usize> {
    plan.others(window).collect()
}

#[test]
fn a_window_that_only_the_hull_of_a_node_touches_has_a_message_without_data() {
    // The ranks of node 1 have data at the beginning and at the end of the file.
    let spans = [(0, 1024), (0, 1024), (0, 64), (960, 1024)];
    let world = World::new(&HOSTS, &spans, &AGGREGATORS);
    let (home, courier) = (world.plan(0), world.plan(2));
    assert_eq!((courier.local(0), courier.local(2)), (1, 0));
    assert_eq!(all_of(&home, 2), [1]);
    assert!(all(courier.carried()).contains(&2) && all(home.dealt_with()).contains(&2));
    assert_eq!((home.expected(2), courier.expected(2)), (3, 0));
    assert_eq!(all(world.plan(3).own_windows()), [15]);
    assert_eq!(home.part_of(1, 2), home.extent(2));
}

#[test]
fn windows_outside_the_exchanged_parts_wait_for_nobody() {
    let world = even().exchanging(&[(64, 128), (544, 552)]);
    let (home, courier) = (world.plan(0), world.plan(1));
    let expected = (0..16).filter(|window| home.expected(*window) > 0);
    // Bytes 64..128 are window 2, bytes 544..552 are in window 1.
    assert_eq!(all(expected), [1, 2]);
    assert_eq!(all(home.own_windows()), [1, 2]);
    assert_eq!((all(home.dealt_with()), all(courier.carried())), (vec![2], vec![1]));
    assert_eq!(home.wanted(1), Extent::between(544, 552));
    assert_eq!(home.wanted(0), Extent::new(0, 0));
    let rest = [(0, 64), (128, 544), (552, 1024)].map(|(start, end)| Extent::between(start, end));
    assert_eq!(home.own_rest().collect::<Vec<_>>(), rest);
    assert!(home.is_partial() && !even().plan(0).is_partial());
    assert_eq!(even().plan(0).own_rest().count(), 0);
}

#[test]
fn of_a_window_the_bytes_from_the_first_to_the_last_wanted_are_read() {
    let spans = [(10, 20), (40, 50), (0, 0), (0, 0)];
    // Among nodes the hull of each node counts.
    let apart = World::new(&HOSTS, &spans, &AGGREGATORS);
    assert_eq!(apart.plan(0).wanted(0), Extent::between(10, 50));
    let together = World::new(&[0; 4], &spans, &[0]);
    assert_eq!(together.plan(2).wanted(0), Extent::between(10, 50));
    let nobody = World::new(&[0; 4], &[(0, 1), (200, 201), (0, 0), (0, 0)], &[0]);
    assert_eq!(nobody.plan(0).wanted(1), Extent::default());
}

#[test]
fn a_rank_that_gives_up_lacks_its_bytes_from_the_lowest_window_left() {
    let spans = [(100, 900), (0, 1024), (0, 1024), (0, 1024)];
    let world = World::new(&HOSTS, &spans, &AGGREGATORS);
    let plan = world.plan(0);
    assert_eq!(all(plan.own_windows().take(4)), [1, 2, 3, 4]);
    // Window 4 is at byte 128, behind window 3 in order, before it in the file.
    assert_eq!(plan.first_offset_from(1), 64);
    assert_eq!(plan.first_offset_from(3), 128);
    assert_eq!(plan.first_offset_from(15), u64::MAX);
}

#[test]
fn keepers_are_the_same_wherever_a_call_begins() {
    let keepers = |start: u64| {
        let world = World::new(&HOSTS, &[(start, start + 1024); 4], &AGGREGATORS);
        let plan = world.plan(0);
        let keeper = |window| (plan.extent(window).offset / 64, plan.keeper(window));
        (0..plan.count()).map(keeper).collect::<BTreeSet<_>>()
    };
    let early: BTreeSet<_> = (0..16).map(|place| (place, place as usize % 2)).collect();
    assert_eq!(keepers(0), early);
    assert!(keepers(320).iter().all(|(place, keeper)| *place as usize % 2 == *keeper));
}

#[test]
fn marks_are_enough_for_bytes_that_begin_and_end_inside_marks() {
    let world = even();
    let plan = world.plan(0);
    assert_eq!(plan.grain(), 3);
    assert_eq!((plan.marks_of(0), plan.marks_of(64)), (2, 10));
    let mut scratch = None;
    plan.empty_marks(&mut scratch).expect("memory").add(1, 2);
    assert_eq!(plan.empty_marks(&mut scratch).expect("memory").runs(0).count(), 0);
}

#[test]
fn a_call_with_hardly_any_bytes_in_its_windows_has_no_plan() {
    let mut world = World::new(&HOSTS, &[(0, 1 << 20); 4], &AGGREGATORS);
    assert!(world.try_plan(0).is_some());
    world.total.bytes = 64;
    assert!(world.try_plan(0).is_none());
}

fn spans() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let span = (0..1500u64, 0..700u64).prop_map(|(start, len)| (start, start + len));
    proptest::collection::vec(prop_oneof![3 => span, 1 => Just((0, 0))], 6)
}

fn world() -> impl Strategy<Value = World> {
    let hosts = prop_oneof![
        Just([0, 0, 0, 1, 1, 1]),
        Just([0, 1, 0, 1, 0, 1]),
        Just([2, 0, 1, 1, 1, 0]),
        Just([0; 6]),
    ];
    let aggregators = prop_oneof![Just(vec![0, 3]), Just(vec![5]), Just(vec![0, 1, 2, 3, 4, 5])];
    let parts = prop_oneof![
        Just(None),
        Just(Some(vec![(0, 100), (300, 900), (1000, 1003)])),
        Just(Some(vec![(640, 1280)])),
    ];
    (hosts, spans(), aggregators, parts).prop_map(|(hosts, spans, aggregators, parts)| {
        let world = World::new(&hosts, &spans, &aggregators);
        match parts {
            Some(parts) => world.exchanging(&parts),
            None => world,
        }
    })
}

proptest! {
    #[test]
    fn a_window_waits_exactly_for_the_ranks_that_take_part_in_it(world in world()) {
        for rank in world.ranks() {
            let plan = world.plan(rank);
            let members = world.maps[rank].members();
            for window in 0..plan.count() {
                let come = members.iter().filter(|member| {
                    world.plan(**member).own_windows().any(|own| own == window)
                });
                prop_assert_eq!(plan.local(window) as usize, come.count());
                let deal = members.iter().filter(|member| {
                    world.plan(**member).dealt_with().any(|own| own == window)
                });
                let others = plan.expected(window) - plan.local(window);
                prop_assert_eq!(others as usize, deal.count());
            }
        }
    }

    #[test]
    fn aggregators_deal_exactly_with_the_couriers_that_carry(world in world()) {
        let node_of = |rank| world.maps[0].node_of(rank);
        let mut sent = BTreeSet::new();
        let mut received = BTreeSet::new();
        for rank in world.ranks() {
            let plan = world.plan(rank);
            for window in plan.carried() {
                prop_assert!(!plan.is_home(window));
                prop_assert!(sent.insert((window, rank, plan.aggregator(window))));
            }
            for window in plan.dealt_with() {
                prop_assert!(plan.is_home(window));
                for node in plan.others(window) {
                    let courier = plan.courier(node, window);
                    prop_assert_eq!(node_of(courier), node);
                    prop_assert!(received.insert((window, courier, rank)));
                }
            }
        }
        prop_assert_eq!(sent, received);
    }
}

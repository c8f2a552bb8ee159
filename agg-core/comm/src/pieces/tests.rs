//! Pieces that ranks of a node keep together, which are threads here.

use super::*;
use std::time::Instant;

const STATE: State = [1000, 2, 3, 4, 5];

/// The pieces of the file in lane 3, as each of two ranks sees them.
fn pair() -> [NodePieces; 2] {
    let table = Arc::new(NodeTable::create().expect("memory"));
    [(); 2].map(|()| NodePieces::new(Some(table.clone()), 3, 2))
}

fn fetch(pieces: &NodePieces, number: u64) -> Fetch<'_> {
    let looks = [(); 2].map(|()| pieces.look(number, STATE, 0..1));
    let [Look::AsItIs, Look::Fetch(fetch)] = looks else { panic!("{looks:?}") };
    fetch
}

fn bytes(look: Look<'_>) -> Vec<u8> {
    let Look::Bytes(bytes) = look else { panic!("{look:?}") };
    bytes
}

#[test]
fn the_second_look_of_the_node_fetches_and_all_ranks_have_it() {
    let [one, other] = pair();
    assert!(!other.are_kept());
    assert!(matches!(one.look(7, STATE, 0..1), Look::AsItIs));
    assert!(other.are_kept());
    let Look::Fetch(fetch) = other.look(7, STATE, 0..1) else { panic!("the second look") };
    fetch.done(b"0123456789");
    assert_eq!(bytes(one.look(7, STATE, 2..5)), b"234");
    assert_eq!(bytes(other.look(7, STATE, 8..20)), b"89", "the piece ends there");
    assert_eq!(bytes(other.look(7, STATE, 20..30)), b"");
    assert!(matches!(one.look(8, STATE, 0..1), Look::AsItIs), "another piece");
}

#[test]
fn a_piece_of_another_state_of_the_file_is_not_used() {
    let [one, other] = pair();
    fetch(&one, 7).done(b"old");
    let state = [1001, 2, 3, 4, 5];
    assert!(matches!(other.look(7, state, 0..3), Look::AsItIs));
    let Look::Fetch(again) = other.look(7, state, 0..3) else { panic!("it is not there") };
    again.done(b"new");
    assert_eq!(bytes(one.look(7, state, 0..3)), b"new");
}

#[test]
fn a_write_of_any_rank_lets_all_fetch_again() {
    let [one, other] = pair();
    fetch(&one, 7).done(b"old");
    other.changed();
    assert!(matches!(one.look(7, STATE, 0..3), Look::AsItIs));
    let Look::Fetch(again) = other.look(7, STATE, 0..3) else { panic!("it is not there") };
    // The fetched bytes may be from before this write.
    one.changed();
    again.done(b"mixed");
    assert!(matches!(one.look(7, STATE, 0..3), Look::AsItIs));
    fetch(&one, 8).done(b"new");
    assert_eq!(bytes(other.look(8, STATE, 0..3)), b"new");
}

#[test]
fn after_a_synchronisation_a_rank_uses_only_what_a_rank_has_fetched_that_has_ended_it_too() {
    let [one, other] = pair();
    fetch(&one, 7).done(b"old");
    fetch(&one, 8).done(b"old");
    one.renewed();
    assert!(matches!(one.look(7, STATE, 0..3), Look::AsItIs));
    let Look::Fetch(again) = one.look(7, STATE, 0..3) else { panic!("it is not there") };
    again.done(b"new");
    assert_eq!(bytes(other.look(7, STATE, 0..3)), b"new", "newer than it has to be");
    assert_eq!(bytes(other.look(8, STATE, 0..3)), b"old", "it has not ended its own");
    other.renewed();
    assert_eq!(bytes(other.look(7, STATE, 0..3)), b"new");
    assert!(matches!(other.look(8, STATE, 0..3), Look::AsItIs));
}

#[test]
fn who_waits_for_a_fetch_that_fails_is_told_and_reads_for_itself() {
    let [one, other] = pair();
    let under_way = fetch(&one, 7);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| matches!(other.look(7, STATE, 0..1), Look::AsItIs));
        std::thread::sleep(Duration::from_millis(30));
        under_way.failed();
        assert!(waits.join().expect("it does not panic"));
    });
    assert!(matches!(one.look(7, STATE, 0..1), Look::AsItIs), "nobody tries again soon");
}

#[test]
fn who_waits_gets_the_bytes_or_has_to_fetch_them_if_the_other_gives_up() {
    for gives_up in [false, true] {
        let [one, other] = pair();
        let under_way = fetch(&one, 7);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| match (other.look(7, STATE, 0..3), gives_up) {
                (Look::Bytes(bytes), false) => assert_eq!(bytes, b"new"),
                // The piece is looked at for the first time again.
                (Look::AsItIs, true) => {}
                (look, _) => panic!("{look:?}"),
            });
            std::thread::sleep(Duration::from_millis(30));
            if gives_up {
                drop(under_way)
            } else {
                under_way.done(b"new")
            }
            waits.join().expect("it does not panic");
        });
    }
}

#[test]
fn nobody_waits_for_ever_for_a_rank_that_does_not_come_back() {
    let [one, other] = pair();
    let under_way = fetch(&one, 7);
    let began = Instant::now();
    // It waits once, not for each read that follows.
    for place in 0..5 {
        assert!(matches!(other.look(7, STATE, place..place + 1), Look::AsItIs));
    }
    assert!(began.elapsed() < 3 * PATIENCE);
    drop(under_way);
}

#[test]
fn what_a_killed_process_was_fetching_is_fetched_by_another_at_once() {
    let [one, other] = pair();
    let under_way = fetch(&one, 7);
    under_way.way.pretend_that_its_process_has_ended();
    std::mem::forget(under_way);
    let began = Instant::now();
    let Look::Fetch(again) = other.look(7, STATE, 0..3) else { panic!("its process has ended") };
    again.done(b"new");
    assert!(began.elapsed() < PATIENCE / 2);
    assert_eq!(bytes(one.look(7, STATE, 0..3)), b"new");
}

#[test]
fn a_lock_that_a_killed_process_held_is_taken_from_it() {
    let [one, other] = pair();
    fetch(&one, 7).done(b"old");
    one.memory().expect("memory").set(8).pretend_that_who_decides_has_ended();
    one.memory().expect("memory").set(9).pretend_that_who_decides_has_ended();
    fetch(&other, 8).done(b"new");
    fetch(&other, 9).done(b"new");
    assert_eq!(bytes(one.look(9, STATE, 0..3)), b"new");
}

#[test]
fn the_next_file_of_a_lane_begins_with_nothing() {
    let table = Arc::new(NodeTable::create().expect("memory"));
    let of_file = || [(); 2].map(|()| NodePieces::new(Some(table.clone()), 3, 2));
    let [one, other] = of_file();
    fetch(&one, 7).done(b"old");
    assert_eq!(bytes(other.look(7, STATE, 0..3)), b"old");
    one.leave();
    let late = NodePieces::new(Some(table.clone()), 3, 2);
    assert_eq!(bytes(late.look(7, STATE, 0..3)), b"old", "it is not closed on all ranks");
    other.leave();
    let [next, _] = of_file();
    assert!(!next.are_kept());
    fetch(&next, 7).done(b"new");
    assert_eq!(bytes(next.look(7, STATE, 0..3)), b"new");
}

#[test]
fn memory_that_is_gone_with_its_maker_is_replaced() {
    let [one, other] = pair();
    fetch(&one, 7).done(b"old");
    drop(one);
    assert!(other.are_kept(), "its maker has ended without a word");
    fetch(&other, 7).done(b"new");
    assert_eq!(bytes(other.look(7, STATE, 0..3)), b"new");
}

#[test]
fn a_rank_alone_keeps_pieces_as_well() {
    let alone = NodePieces::new(None, 0, 1);
    fetch(&alone, 7).done(b"old");
    assert_eq!(bytes(alone.look(7, STATE, 0..3)), b"old");
    alone.changed();
    fetch(&alone, 7).done(b"new");
    assert_eq!(bytes(alone.look(7, STATE, 0..3)), b"new");
}

#[test]
fn extents_are_fetched_at_the_first_look_while_others_want_them() {
    let [one, other] = pair();
    let look = |pieces: &NodePieces, offset| match pieces.look_at_extent(offset, STATE, 3, PATIENCE)
    {
        Look::Fetch(fetch) => {
            fetch.done(b"abc");
            "fetched"
        }
        Look::Bytes(bytes) => {
            assert_eq!(bytes, b"abc");
            "there"
        }
        Look::AsItIs => "as it is",
    };
    assert_eq!(look(&one, 10), "as it is", "nobody has wanted any so far");
    assert_eq!(look(&other, 10), "fetched");
    assert_eq!([look(&one, 11), look(&other, 11)], ["fetched", "there"]);
    let alone: Vec<_> = (0..u64::from(HOPE) + 2).map(|number| look(&one, 100 + number)).collect();
    assert_eq!(alone[HOPE as usize - 1..], ["fetched", "as it is", "as it is"]);
    assert_eq!(look(&other, 11), "there", "hope is back");
    assert_eq!(look(&one, 300), "fetched");
    assert!(matches!(one.look(10, STATE, 0..3), Look::AsItIs), "pieces are others");
}

#[test]
fn who_waits_for_an_extent_waits_no_longer_than_it_wants_to() {
    let [one, other] = pair();
    const SHORT: Duration = Duration::from_millis(3);
    let looks = [(); 2].map(|()| one.look_at_extent(10, STATE, 3, PATIENCE));
    let [Look::AsItIs, Look::Fetch(fetch)] = looks else { panic!("{looks:?}") };
    let began = Instant::now();
    assert!(matches!(other.look_at_extent(10, STATE, 3, SHORT), Look::AsItIs));
    assert!((SHORT..PATIENCE / 2).contains(&began.elapsed()));
    fetch.done(b"abc");
    assert_eq!(bytes(other.look_at_extent(10, STATE, 3, SHORT)), b"abc");
}

/// The byte of a piece of a file in a state.
fn byte(number: u64, state: u64, at: usize) -> u8 {
    (number * 31 + state * 7 + at as u64 % 251) as u8
}

/// Makes this number of random looks, with new states and writes among them; returns how many found
/// bytes.
fn looks(pieces: &NodePieces, count: u64, seed: u64) -> usize {
    const LEN: usize = 3000;
    let (mut found, mut random) = (0, seed);
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % limit
    };
    for _ in 0..count {
        let (number, state) = (below(70), below(20) / 19);
        let start = below(LEN as u64) as usize;
        let end = start + below((LEN - start) as u64 + 1) as usize;
        match pieces.look(number, [state, 0, 0, 0, 0], start..end) {
            Look::Bytes(bytes) => {
                let right = (start..end).map(|at| byte(number, state, at));
                assert!(bytes.into_iter().eq(right), "piece {number}, state {state}");
                found += 1;
            }
            Look::Fetch(fetch) => {
                let bytes: Vec<u8> = (0..LEN).map(|at| byte(number, state, at)).collect();
                match below(20) {
                    0 => drop(fetch),
                    _ => fetch.done(&bytes),
                }
            }
            Look::AsItIs => {}
        }
        if below(500) == 0 {
            pieces.changed();
        }
    }
    found
}

#[test]
fn ranks_that_fetch_and_drop_pieces_of_each_other_never_see_a_mixture() {
    let table = Arc::new(NodeTable::create().expect("memory"));
    let found: usize = std::thread::scope(|scope| {
        let ranks = (0..4).map(|seed| {
            let pieces = NodePieces::new(Some(table.clone()), 5, 2);
            scope.spawn(move || looks(&pieces, 20_000, seed))
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("the bytes are right")).sum()
    });
    assert!(found > 2000, "{found} looks found bytes");
}

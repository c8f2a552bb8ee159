//! Counts of a file: calls, pieces, bytes, and the ways in which calls were carried out.

use super::*;
use aggio_base::report::Totals;
use aggio_plan::plan::{Note, Reason, Way};

/// The sum of the counts of all `ranks` while `body` ran.
fn counted(
    ranks: usize,
    scratch: &Scratch,
    body: impl Fn(&Rank) + Send + Sync + 'static,
) -> Totals {
    let all = on_file(ranks, scratch.name(), CREATE, move |rank| {
        body(rank);
        rank.file.counters().totals()
    });
    all.iter().fold(Totals::default(), |mut sum, totals| {
        sum.add(totals);
        sum
    })
}

#[test]
fn calls_are_counted_by_the_way_they_were_carried_out() {
    let scratch = Scratch::new();
    let totals = counted(4, &scratch, |rank| {
        // 4 ranks in turn, 100 pieces of 1000 bytes each: through aggregators.
        let from = rank.number as u64 * 1000;
        rank.set_view(every(1, 1000, 4000, from)).expect("a legal view");
        rank.write_all(Position::Explicit(0), &[7; 100_000]);
        rank.read_all(Position::Explicit(0), 100_000);
        rank.set_view(Ok(View::bytes())).expect("a legal view");
        // Large parts: each rank writes its own. No data: no rank writes.
        rank.write_all(Position::Explicit(rank.number as i64 * 200_000), &[7; 200_000]);
        rank.write_all(Position::Explicit(0), &[]);
    });
    assert_eq!((totals.calls, totals.collective_calls, totals.errors), (16, 16, 0));
    assert_eq!((totals.two_phase, totals.collective_alone), (8, 4));
    let told = |way, reason| totals.decided.of(way, reason);
    assert_eq!(told(Way::Memory, Reason::Interleaved), 2, "one rank counts for all");
    assert_eq!(told(Way::Independent, Reason::LargeSeparate), 1);
    assert_eq!(totals.decided.notes(), []);
    assert_eq!((totals.sieved, totals.listed), (0, 0));
    assert_eq!(totals.pieces_in, 400 + 400 + 4);
    assert_eq!((totals.bytes_written, totals.bytes_read), (1_200_000, 400_000));
    assert_eq!((totals.bytes_written_out, totals.bytes_read_out), (1_200_000, 400_000));
}

#[test]
fn independent_calls_with_gaps_are_counted_as_sieved_or_listed() {
    let scratch = Scratch::holding(&[3; 2_000_000]);
    let totals = counted(2, &scratch, |rank| {
        rank.write(Position::Explicit(0), &[3; 10]);
        rank.set_view(every(1, 10, 20, 0)).expect("a legal view");
        rank.read(Position::Explicit(0), 100);
        rank.write(Position::Explicit(0), &[3; 50]);
        rank.set_view(every(1, 10, 1_000_000, 0)).expect("a legal view");
        rank.read(Position::Explicit(0), 20);
    });
    assert_eq!((totals.calls, totals.pieces_in), (8, 2 * (1 + 10 + 5 + 2)));
    assert_eq!((totals.two_phase, totals.collective_alone), (0, 0));
    assert_eq!((totals.bytes_written, totals.bytes_read), (120, 240));
    assert!(totals.sieved >= 2 && totals.sieved + totals.listed == 6, "{totals:?}");
}

#[test]
fn a_rank_without_others_carries_out_collective_calls_alone() {
    let scratch = Scratch::new();
    let totals = counted(1, &scratch, |rank| {
        rank.write_all(Position::Explicit(0), b"abc");
        rank.write_all(Position::Explicit(0), b"");
    });
    assert_eq!((totals.collective_calls, totals.collective_alone, totals.pieces_in), (2, 1, 1));
    assert_eq!(totals.decided.of(Way::Independent, Reason::OnlyRank), 1);
}

#[test]
fn messages_instead_of_shared_memory_are_noted_with_the_cause() {
    let scratch = Scratch::new();
    let totals = counted(2, &scratch, |rank| {
        rank.set_view(every(1, 10, 20, rank.number as u64 * 10)).expect("a legal view");
        rank.wait(rank.file.set_atomicity(true)).expect("atomicity can be set");
        rank.write_all(Position::Explicit(0), &[7; 1000]);
        rank.wait(rank.file.set_atomicity(false)).expect("atomicity can be set");
        rank.set_view(every(1, 8, 1 << 30, rank.number as u64 * 8)).expect("a legal view");
        rank.read_all(Position::Explicit(0), 800);
    });
    let decided = totals.decided;
    assert_eq!(decided.of(Way::Messages, Reason::Interleaved), 2);
    assert_eq!((decided.noted(Note::Atomic), decided.noted(Note::FarApart)), (1, 1));
}

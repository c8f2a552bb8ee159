//! The contents of reports, for people and as JSON.

use super::*;

fn totals() -> Totals {
    let counters = Counters::default();
    Counters::add(&counters.calls, 12);
    Counters::add(&counters.bytes_written, 3 << 19);
    Counters::add(&counters.writes_out, 7);
    Counters::add(&counters.nanoseconds, 4_000_000_000);
    counters.totals()
}

fn summary<'a>(path: &'a str, totals: Totals, sealed: Option<&'a str>) -> Summary<'a> {
    Summary { path, driver: "posix", ranks: 4, of: Of::All, totals, sealed }
}

#[test]
fn totals_survive_the_way_to_another_rank() {
    let bytes = totals().to_bytes();
    assert_eq!(bytes.len(), Totals::WIRE_BYTES);
    assert_eq!(Totals::from_bytes(&bytes), Some(totals()));
    assert_eq!(Totals::from_bytes(&bytes[1..]), None);
    assert_eq!(Totals::from_bytes(&[bytes.clone(), vec![0; 8]].concat()), None);
}

#[test]
fn sums_over_ranks_do_not_wrap() {
    let mut sum = Totals { calls: u64::MAX - 1, ..Totals::default() };
    sum.add(&totals());
    assert_eq!((sum.calls, sum.writes_out), (u64::MAX, 7));
}

#[test]
fn the_line_tells_requests_in_and_out_bytes_and_seconds() {
    let line = summary("/d/o", totals(), None).line();
    assert!(line.contains("in 12 calls (0 collective), 0 pieces, read 0 B, written 1.5 MiB"));
    assert!(line.contains("out 7 requests") && line.contains("sums of 4 ranks"), "{line}");
    assert!(line.contains("; mean of ranks: 1.000 s in calls, "), "{line}");
}

#[test]
fn of_a_file_that_is_open_at_the_end_a_rank_tells_what_it_did_itself() {
    let summary = Summary { of: Of::Rank(2), ..summary("/d/o", totals(), None) };
    let (line, json) = (summary.line(), summary.json());
    assert!(line.contains("; rank 2 of 4 alone, open still at the end: in 12 calls"), "{line}");
    assert!(line.contains(" 4.000 s in calls"), "{line}");
    assert!(json.contains(r#""ranks":4,"open_at_end":true,"rank":2,"sum":{"#), "{json}");
    assert!(json.contains(r#""mean":{"seconds_in_calls":4.000000000,"#), "{json}");
}

#[test]
fn the_line_tells_how_calls_were_carried_out_and_nothing_that_did_not_happen() {
    let totals = Totals { pieces_in: 9, two_phase: 8, sieved: 2, ..totals() };
    let line = summary("/d/o", totals, None).line();
    let said = "; two-phase 8; sieved 2; mean of ranks: ";
    assert!(line.contains(", 9 pieces, ") && line.contains(said), "{line}");
}

#[test]
fn both_forms_tell_each_decision_with_its_reason_and_how_often() {
    let counters = Counters::default();
    for _ in 0..12 {
        counters.decided.count(Way::Memory, Reason::Interleaved);
    }
    counters.decided.count(Way::Independent, Reason::LargeSeparate);
    counters.decided.note(Note::Atomic);
    let totals = Totals::from_bytes(&counters.totals().to_bytes()).unwrap();
    let summary = summary("/d/o", totals, None);
    let said = "; independent: large separate pieces (1); two-phase in shared memory: requests \
                of ranks interleave (12); note: atomic mode: messages (1)";
    assert!(summary.line().contains(said), "{}", summary.line());
    let said = "\"decisions\":{\"independent: large separate pieces\":1,\"two-phase in shared \
                memory: requests of ranks interleave\":12},\"notes\":{\"atomic mode: \
                messages\":1}}";
    assert!(summary.json().ends_with(said), "{}", summary.json());
}

#[test]
fn both_forms_tell_what_became_of_a_container() {
    let sealed = Some("stays a container: \"x\"");
    let summary = summary("/d/o", totals(), sealed);
    assert!(summary.line().ends_with("; stays a container: \"x\""), "{}", summary.line());
    let said = r#","sealed":"stays a container: \"x\"","sum":"#;
    assert!(summary.json().contains(said), "{}", summary.json());
}

#[test]
fn the_json_line_quotes_the_file_name() {
    let path = "/d/\"q\"\\\n";
    let json = summary(path, totals(), None).json();
    let begin = r#"{"aggio_report":2,"interface":"mpi","file":"/d/\"q\"\\\u000a","driver":"#;
    assert!(json.starts_with(begin), "{json}");
    assert!(json.contains(",\"writes_out\":7,") && json.ends_with('}'), "{json}");
}

#[test]
fn the_line_tells_how_long_programs_waited_for_a_coupled_file() {
    let waits = Totals { coupled_waits: 3, coupled_nanoseconds: 1_250_000_000, ..totals() };
    let line = summary("/d/o", Totals { coupled_bytes: 1 << 20, ..waits }, None).line();
    let said = "; waited 3 times for a coupled file, 1.250 s in all, and asked another node for \
                1.0 MiB; mean";
    assert!(line.contains(said), "{line}");
    assert!(!summary("/d/o", totals(), None).line().contains("waited"));
}

//! Atomic mode, on one host and on several.

use super::*;
use aggio_store::driver::fault::arrange;

/// Four ranks on the hosts of these names.
fn on_hosts(names: &str) -> Vec<Arc<ThreadTransport>> {
    ThreadTransport::group_on(names.split(' ').map(String::from).collect())
}

const PLACES: [&str; 3] = ["a a a a", "a b a b", "a b c d"];

#[test]
fn atomic_mode_is_turned_on_by_all_ranks_or_none() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        assert!(!rank.file.atomicity());
        let some = rank.file.set_atomicity(rank.number > 0);
        assert_eq!(class(rank.wait(some)), ErrorClass::Arg);
        assert!(!rank.file.atomicity());
        rank.wait(rank.file.set_atomicity(true)).expect("all ranks agree");
        assert!(rank.file.atomicity());
    });
}

#[test]
fn conflicting_strided_writes_do_not_mix() {
    for names in PLACES {
        let scratch = Scratch::new();
        on_file_of(on_hosts(names), scratch.name(), CREATE, |rank| {
            rank.wait(rank.file.set_atomicity(true)).expect("all ranks agree");
            rank.set_view(every(1, 1, 2, 0)).expect("a legal view");
            for round in 0..40u8 {
                let value = 4 * round + rank.number as u8;
                assert_eq!(moved(rank.write(Position::Explicit(0), &[value; 3000])), 3000);
                let (bytes, _) = rank.read(Position::Explicit(0), 3000);
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a read saw two writes");
            }
        });
        let bytes = scratch.bytes();
        assert!(bytes.iter().step_by(2).all(|byte| *byte == bytes[0]), "{names}");
    }
}

#[test]
fn conflicting_collective_writes_end_with_the_bytes_of_one_rank() {
    for names in PLACES {
        let scratch = Scratch::new();
        on_file_of(on_hosts(names), scratch.name(), CREATE, |rank| {
            rank.wait(rank.file.set_atomicity(true)).expect("all ranks agree");
            rank.set_view(every(1, 1, 2, 0)).expect("a legal view");
            let data = [1 + rank.number as u8; 3000];
            assert_eq!(moved(rank.write_all(Position::Explicit(0), &data)), 3000);
        });
        let bytes = scratch.bytes();
        assert!((1..=4).contains(&bytes[0]));
        assert!(bytes.iter().step_by(2).all(|byte| *byte == bytes[0]), "{names}");
        assert!(bytes.iter().skip(1).step_by(2).all(|byte| *byte == 0), "{names}");
    }
}

#[test]
fn where_hosts_can_share_no_locks_atomic_mode_is_refused_on_all_ranks() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=lock,errno=ENOLCK").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    on_file_of(on_hosts("a b a b"), name, CREATE, |rank| {
        let refused = rank.wait(rank.file.set_atomicity(true)).expect_err("there are no locks");
        assert_eq!(refused.rank(), Some(0), "{refused}");
        assert!(!rank.file.atomicity());
        assert_eq!(moved(rank.write_all(Position::Explicit(rank.number as i64), b"x")), 1);
    });
    assert_eq!(scratch.bytes(), b"xxxx");
}

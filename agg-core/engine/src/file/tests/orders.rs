//! Ranks begin operations on several files in different orders, without deadlock.

use super::*;
use aggio_comm::task::join_all;

const ROUNDS: usize = 12;
/// More than a node's memory has room for.
const FILES: usize = 7;

/// Each of `hosts.len()` ranks writes `ROUNDS` times 8 bytes to each of several files. Even ranks
/// begin all of a round but the last, and let them proceed while they wait for the last one; odd
/// ranks write the last one first, and begin the others later.
fn write_in_orders(hosts: &[&str]) {
    let scratches: Vec<Scratch> = (0..FILES).map(|_| Scratch::new()).collect();
    let names: Vec<String> = scratches.iter().map(Scratch::name).collect();
    let size = hosts.len();
    let transports = ThreadTransport::group_on(hosts.iter().map(|h| (*h).to_owned()).collect());
    ranks_on(transports, move |transport| {
        let open = |name: &String| {
            let file = open(&transport, name, CREATE).expect("the file opens");
            Rank { number: transport.rank(), file }
        };
        let files: Vec<Rank> = names.iter().map(open).collect();
        for round in 0..ROUNDS {
            let mut data = [[transport.rank() as u8 + 1; 8]; FILES];
            let offset = ((round * size + transport.rank()) * 8) as i64;
            let mut start = |file: usize| {
                let place = Position::Explicit(offset);
                files[file].start(Direction::Write, place, true, &mut data[file])
            };
            let last = FILES - 1;
            let outcomes = if transport.rank() % 2 == 0 {
                let all = (0..FILES).map(start).collect();
                files[0].wait(join_all(all))
            } else {
                let mut outcomes = vec![files[last].wait(start(last))];
                outcomes.extend((0..last).map(|file| files[file].wait(start(file))));
                outcomes
            };
            assert!(outcomes.iter().all(|o| o.bytes == 8 && o.result.is_ok()), "{outcomes:?}");
        }
        for rank in files {
            rank.wait(rank.file.clone().close()).expect("the file closes");
        }
    });
    let expected: Vec<u8> =
        (0..ROUNDS).flat_map(|_| (1..=size as u8).flat_map(|rank| [rank; 8])).collect();
    for scratch in scratches {
        assert_eq!(scratch.bytes(), expected);
    }
}

#[test]
fn files_may_be_written_in_different_orders_on_one_node() {
    write_in_orders(&["a", "a"]);
    write_in_orders(&["a", "a", "a"]);
}

#[test]
fn files_may_be_written_in_different_orders_on_several_nodes() {
    write_in_orders(&["a", "a", "b", "b"]);
    write_in_orders(&["a", "b", "b"]);
}

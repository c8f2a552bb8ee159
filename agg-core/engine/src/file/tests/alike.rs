//! Large reads that several ranks make alike, which one of them fetches for all.

use super::small::{MIB, all_reading, at, byte, old_file, timeless};
use super::*;
use aggio_store::driver::fault::arrange;

/// Bytes of a chunk that is read as a whole: less than a MiB, more, the most that is shared.
const CHUNKS: [usize; 4] = [100_000, MIB, 2 * MIB + 12_345, 8 * MIB];

/// Extents that follow each other, and begin anywhere.
fn chunks(count: usize, len: usize) -> Vec<usize> {
    (0..count).map(|number| 77 + number * len).collect()
}

/// The bytes of the file there. Computed quickly, as kept bytes are valid for one second.
fn wanted(place: usize, len: usize) -> Vec<u8> {
    let period: Vec<u8> = (place..place + 251).map(byte).collect();
    let mut bytes = period.repeat(len.div_ceil(251));
    bytes.truncate(len);
    bytes
}

fn expect(rank: &Rank, place: usize, len: usize) {
    let (bytes, outcome) = rank.read(at(place), len);
    assert_eq!(moved(outcome), len as u64);
    assert!(bytes == wanted(place, len), "{place}, {len} bytes");
}

/// Whether `holds` succeeds in one of several attempts: kept bytes are valid for one second, which
/// may pass while ranks wait for a processor.
fn holds_where_ranks_run(holds: impl Fn() -> bool) -> bool {
    (0..20).any(|_| holds())
}

#[test]
fn an_extent_that_all_ranks_of_a_node_read_costs_one_request() {
    const COUNT: usize = 3;
    for len in CHUNKS {
        let scratch = old_file(77 + COUNT * len);
        let holds = holds_where_ranks_run(|| {
            let (_, totals) =
                all_reading(3, scratch.name(), Amode::RDONLY, "enable", move |rank| {
                    for place in chunks(COUNT, len) {
                        expect(rank, place, len);
                        // From now on the ranks have found that they read the same.
                        rank.wait(rank.file.sync()).expect("all have read");
                    }
                });
            // The first one is read once as it is.
            let most = COUNT as u64 + 1;
            totals.reads_out <= most && totals.remembered >= 3 * COUNT as u64 - most
        });
        assert!(holds, "{len} bytes");
    }
}

#[test]
fn extents_that_each_rank_reads_alone_cost_what_they_cost() {
    const COUNT: usize = 30;
    let scratch = old_file(77 + 2 * COUNT * 100_000);
    let (_, totals) = all_reading(2, scratch.name(), Amode::RDONLY, "enable", |rank| {
        // Both read the first chunk; then no rank reads the chunks of the other.
        expect(rank, 0, 100_000);
        rank.wait(rank.file.sync()).expect("both have read");
        for place in chunks(COUNT, 100_000).into_iter().skip(rank.number).step_by(2) {
            expect(rank, place, 100_000);
        }
    });
    assert_eq!(totals.reads_out, COUNT as u64 + 2);
    assert_eq!(totals.bytes_read_out, 100_000 * totals.reads_out);
}

#[test]
fn a_rank_that_reads_an_extent_again_has_it_from_memory() {
    let scratch = old_file(3 * MIB);
    assert!(holds_where_ranks_run(|| {
        let (_, totals) = all_reading(1, scratch.name(), Amode::RDONLY, "enable", |rank| {
            (0..10).for_each(|_| expect(rank, 5, 2 * MIB));
            // A shorter read at the same offset is there as well; a longer one is not.
            expect(rank, 5, MIB);
            expect(rank, 5, 3 * MIB - 5);
        });
        (totals.reads_out, totals.remembered) == (3, 9)
    }));
}

#[test]
fn an_extent_that_cannot_be_fetched_for_others_is_read_as_it_is_and_tells_what_fails() {
    // The second request is the one that fetches; then the third is the read itself.
    for (plan, error) in
        [("op=read,nth=2,errno=EIO", false), ("op=read,nth=2,times=2,errno=EIO", true)]
    {
        let scratch = old_file(2 * MIB);
        let _plan = arrange(&scratch.name(), plan).expect("a plan");
        let faulty = format!("testfs:{}", scratch.name());
        all_reading(1, faulty, Amode::RDONLY, "enable", move |rank| {
            expect(rank, 7, MIB + 100);
            let (bytes, outcome) = rank.read(at(7), MIB + 100);
            match error {
                true => assert_eq!(failed(outcome).errno(), libc::EIO),
                false => {
                    assert_eq!(moved(outcome), MIB as u64 + 100);
                    assert!(bytes == wanted(7, MIB + 100));
                }
            }
            expect(rank, 7, MIB + 100);
        });
    }
}

#[test]
fn what_ranks_write_between_reads_is_seen_in_extents_of_all_sizes() {
    const LEN: usize = 3 * MIB;
    let scratch = Scratch::holding(&vec![1; LEN]);
    let (name, _plan) = timeless(&scratch, "");
    all_reading(3, name, Amode::RDWR, "enable", |rank| {
        let mut random = 7_u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % limit
        };
        for round in 1..12_u8 {
            // All ranks draw the same extents, and read them some times, in the same order.
            for _ in 0..4 {
                let place = below(LEN);
                let len = 1 + below(LEN - place);
                for _ in 0..1 + below(3) {
                    let (bytes, outcome) = rank.read(at(place), len);
                    assert_eq!(moved(outcome), len as u64);
                    assert!(bytes == vec![round; len], "{place}, {len}, {round}");
                }
            }
            rank.wait(rank.file.sync()).expect("all have read");
            let third = LEN / 3;
            let own = vec![round + 1; third];
            assert_eq!(moved(rank.write(at(rank.number * third), &own)), third as u64);
            // A rank sees its own bytes at once.
            let (bytes, _) = rank.read(at(rank.number * third), third);
            assert_eq!(bytes, own);
            rank.wait(rank.file.sync()).expect("all have written");
        }
    });
}

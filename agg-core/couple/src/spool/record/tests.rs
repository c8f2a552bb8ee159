//! Records are read as they were written, or not at all.

use super::*;
use crate::seeds;
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..9u64, 0..NUMBERS]
}

fn pairs() -> impl Strategy<Value = Vec<(String, u64)>> {
    prop::collection::vec(("[a-z 0-9]{0,20}", number()), 0..4)
}

fn kept() -> impl Strategy<Value = Kept> {
    let texts = ("[a-z]{0,9}", prop::collection::vec("[a-z]{0,9}", 0..3));
    let facts = (any::<u64>(), any::<u32>(), any::<u64>(), any::<(i64, i64)>());
    let numbers = (number(), number(), facts, prop::collection::vec(number(), 0..3));
    (texts, numbers, any::<[bool; 5]>()).prop_map(|((maker, jobs), numbers, flags)| {
        let (area, number, (size, mode, inode, modified), handles) = numbers;
        let [read, unlinked, wanted, stored, named] = flags;
        Kept {
            area,
            number,
            size,
            mode,
            inode,
            modified,
            maker,
            jobs,
            handles,
            read,
            unlinked,
            wanted,
            stored,
            named,
        }
    })
}

fn process_record() -> impl Strategy<Value = ProcessRecord> {
    let held = (number(), number(), any::<u64>(), any::<bool>());
    let held = held.prop_map(|(handle, area, key, is_part)| Held { handle, area, key, is_part });
    let opens = prop::collection::vec(held, 0..3);
    let position = (number(), any::<u32>(), any::<bool>(), number());
    let position =
        position.prop_map(|(at, open, seen, finished)| Position { at, open, seen, finished });
    let texts = ["[a-z]{0,9}", "[a-z]{0,9}", "[a-z]{0,9}"];
    (any::<[u32; 2]>(), any::<u64>(), texts, position, opens).prop_map(
        |([pid, ranks], start, [job, family, label], position, opens)| ProcessRecord {
            pid,
            start,
            job,
            ranks,
            family,
            label,
            position,
            opens,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let texts = ("[a-z0-9-]{0,36}", prop::collection::vec(any::<u8>(), 0..60));
    let missing = prop::collection::vec(number(), 0..3);
    let state = (prop::array::uniform4(number()), missing, any::<bool>());
    let died = prop::option::of((number(), "[a-z]{0,9}"));
    let families = (pairs(), pairs(), prop::option::of("[a-z]{0,9}"), died);
    let opens = prop::collection::vec((number(), any::<u64>()), 0..3);
    let aborted = ("[a-z]{0,9}", number(), "[a-z]{0,9}", opens);
    let aborted =
        aborted.prop_map(|(job, number, maker, opens)| Written { job, number, maker, opens });
    let processes = || prop::collection::vec(process_record(), 0..4);
    let generations = prop::collection::vec(kept(), 0..4);
    let all = (generations, processes(), processes(), prop::collection::vec(aborted, 0..3));
    (texts, state, families, all).prop_map(|(texts, state, families, all)| {
        let ((boot, path), (numbers, missing, emptied)) = (texts, state);
        let (ended, removed, writer, dead) = families;
        let ((generations, readers, writers, aborted), options) = (all, Options::default());
        Record {
            boot,
            path,
            options,
            numbers,
            missing,
            emptied,
            dead,
            writer,
            ended,
            removed,
            generations,
            readers,
            writers,
            aborted,
        }
    })
}

proptest! {
    #[test]
    fn records_are_read_as_they_were_written(record in record()) {
        prop_assert_eq!(Record::decode(&record.encode()).unwrap(), record);
    }

    #[test]
    fn a_record_that_was_cut_or_changed_is_none(
        record in record(),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let bytes = record.encode();
        let at = at.index(bytes.len());
        prop_assert!(Record::decode(&bytes[..at]).is_err());
        let mut changed = bytes;
        changed[at] ^= 1u8 << bit;
        prop_assert!(Record::decode(&changed).is_err());
    }

    #[test]
    fn bytes_with_the_right_checksum_are_what_they_are_written_as_or_refused(
        record in record(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut all = record.encode();
        all.truncate(all.len() - 4);
        for (at, byte) in changes {
            let at = at.index(all.len());
            all[at] = byte;
        }
        all.extend(tail);
        let sum = crc32c(&all);
        all.extend(sum.to_le_bytes());
        if let Ok(read) = Record::decode(&all) {
            // No two texts mean the same, so that nothing in it was passed over.
            prop_assert_eq!(read.encode(), all);
        }
    }
}

#[test]
fn seeds_of_the_fuzzer_are_of_this_version() {
    let examples = || seeds::some(record(), |record| record.encode(), 0, 6);
    seeds::are_read("records", examples, |bytes| Record::decode(bytes).is_ok());
}

#[test]
fn a_record_of_another_version_is_none() {
    let mut bytes = Record::default().encode();
    bytes.truncate(bytes.len() - 4);
    bytes[6] += 1;
    let sum = crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    assert!(Record::decode(&bytes).is_err());
}

#[test]
fn numbers_that_would_leave_none_for_the_next_agent_are_refused() {
    let kept = |area| Kept { area, ..Kept::default() };
    for (area, is_read) in [(NUMBERS - 1, true), (NUMBERS, false), (u64::MAX, false)] {
        let record = Record { generations: vec![kept(area)], ..Record::default() };
        assert_eq!(Record::decode(&record.encode()).is_ok(), is_read, "{area}");
    }
}

//! Writes, growths and counts of the size at the same time, step by step.

use super::*;
use crate::blob::{Container, Create};

const BYTES: [u8; 50] = [7; 50];

/// A container, two writers of it, and what a third writes from byte 100 on.
fn with_writers(work: impl FnOnce(&Container, [Writer; 3], &Frame<'_>)) {
    let place = tempfile::tempdir().unwrap();
    let how = Create { mode: 0o644, exclusive: false, data_crc: true };
    let container = Container::create(&place.path().join("blob"), &how).unwrap();
    let strips = [Strip::one(Extent::new(100, 50))];
    let frame = Frame { strips: &strips, pieces: 1, end: 150, data: &[&BYTES] };
    let writers = [0; 3].map(|_| container.writer().unwrap());
    work(&container, writers, &frame);
}

fn read(container: &Container) -> Vec<u8> {
    let reader = container.reader().unwrap();
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_growth_that_believes_a_size_counted_without_a_write_does_not_cut_it_off() {
    with_writers(|container, [writer, counting, growing], frame| {
        {
            let _turn = counting.order.turn().unwrap();
            let counts = counting.order.load(Word::Counts).unwrap() | 1;
            counting.order.store(Word::Counts, counts).unwrap();
            let size = counting.looked_up_size().unwrap();
            // Now the write comes, of which the size that is stored next does not know.
            let before = writer.put(frame).unwrap();
            counting.order.store(Word::Size, size).unwrap();
            counting.order.store(Word::Counts, counts + 1).unwrap();
            drop(_turn);
            growing.grow(120).unwrap();
            writer.settle(frame, &before).unwrap();
        }
        assert_eq!(growing.size().unwrap(), 150);
        let bytes = read(container);
        assert!(bytes.len() == 150 && bytes[..100] == [0; 100] && bytes[100..] == BYTES);
    });
}

#[test]
fn a_growth_that_does_not_see_a_write_is_seen_by_it() {
    with_writers(|container, [writer, _, growing], frame| {
        let mut before = writer.changes().unwrap();
        before.growths = writer.append_frame(&mut writer.log(), frame).unwrap();
        growing.grow(120).unwrap();
        writer.raise(frame.end).unwrap();
        writer.settle(frame, &before).unwrap();
        assert_eq!(growing.size().unwrap(), 150);
        assert_eq!(read(container)[100..], BYTES);
    });
}

#[test]
fn a_growth_does_not_count_on_the_bytes_of_a_write_that_was_cut_off_and_killed() {
    with_writers(|container, [writer, _, growing], frame| {
        writer.append_frame(&mut writer.log(), frame).unwrap();
        growing.grow(120).unwrap();
        writer.raise(frame.end).unwrap();
        writer.abandon();
        growing.grow(140).unwrap();
        assert_eq!(growing.size().unwrap(), 140);
        let bytes = read(container);
        assert!(bytes.len() == 140 && bytes[100..120] == BYTES[..20] && bytes[120..] == [0; 20]);
    });
}

//! Writes, growths and counts of the size at the same time, step by step.

use crate::file::container::{Container, Create};
use crate::reading::placement::Placed;
use crate::writing::writer::*;
use std::os::unix::fs::FileExt;

const BYTES: [u8; 50] = [7; 50];

/// A container, two writers of it, and the frame that a third one writes from byte 100 on.
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
            let size = counting.size.looked_up().unwrap();
            // Now the write comes; the size that is stored next does not include it.
            let before = writer.put(frame).unwrap().unwrap();
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
        let mut before = writer.size.changes().unwrap();
        before.growths = writer.order.load(Word::Growths).unwrap();
        writer.append_frame(&mut writer.log(), frame).unwrap();
        growing.grow(120).unwrap();
        writer.size.raise(frame.end).unwrap();
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
        writer.size.raise(frame.end).unwrap();
        writer.abandon();
        growing.grow(140).unwrap();
        assert_eq!(growing.size().unwrap(), 140);
        let bytes = read(container);
        assert!(bytes.len() == 140 && bytes[100..120] == BYTES[..20] && bytes[120..] == [0; 20]);
    });
}

/// Whether the bytes of `frame` and later stores to memory are both seen, in memory and by readers.
fn is_one_file(container: &Container, mapper: &Writer, frame: &Frame<'_>, placed: &Placed) {
    let memory = |len: usize| {
        let mut bytes = vec![0; len];
        mapper.part(placed.log).unwrap().read_exact_at(&mut bytes, placed.place).unwrap();
        bytes
    };
    let end = frame.end as usize;
    assert_eq!(memory(end), read(container)[..end], "what was written is in memory");
    assert_eq!(memory(end)[100..], BYTES);
    mapper.part(placed.log).unwrap().write_all_at(b"stored", placed.place + 110).unwrap();
    assert_eq!(read(container)[110..116], *b"stored", "what is stored to memory is in the file");
}

#[test]
fn a_write_with_an_older_number_than_a_mapping_is_stored_there_too() {
    with_writers(|container, [writer, mapper, _], frame| {
        mapper.set_size(4096).unwrap();
        let taken = writer.order.take(1).unwrap();
        assert!(!taken.mapped);
        let placed = mapper.place_pages(Extent::new(0, 4096), 4096).unwrap();
        writer.append_taken(&mut writer.log(), frame, &taken).unwrap();
        assert!(writer.order.is_mapped().unwrap());
        writer.write_in_place(frame).unwrap();
        is_one_file(container, &mapper, frame, &placed[0]);
    });
}

#[test]
fn a_write_that_begins_while_somebody_maps_leaves_no_newer_frame() {
    with_writers(|container, [writer, mapper, _], frame| {
        mapper.set_size(4096).unwrap();
        let placed = mapper.place_pages(Extent::new(0, 4096), 4096).unwrap();
        assert!(writer.put(frame).unwrap().is_none());
        writer.write_strips(frame.strips, 1, frame.end, frame.data).unwrap();
        is_one_file(container, &mapper, frame, &placed[0]);
    });
}

#[test]
fn a_write_that_a_growth_and_a_mapping_came_across_is_stored_in_place() {
    with_writers(|container, [writer, mapper, growing], frame| {
        let before = writer.put(frame).unwrap().unwrap();
        growing.grow(4096).unwrap();
        let placed = mapper.place_pages(Extent::new(0, 4096), 4096).unwrap();
        writer.settle(frame, &before).unwrap();
        writer.write_in_place(frame).unwrap();
        is_one_file(container, &mapper, frame, &placed[0]);
    });
}

#[test]
fn who_follows_others_writes_newer_bytes_than_those_although_they_count_by_themselves() {
    with_writers(|container, [one, other, _], _| {
        for round in 0..5 {
            one.write_at(&[round; 300], 0).unwrap();
        }
        // The words of another computer, before it has seen the writes of this one.
        other.order.store(Word::Next, 1).unwrap();
        other.order.store(Word::Size, 0).unwrap();
        other.follow().unwrap();
        assert_eq!(other.size().unwrap(), 300);
        other.write_at(&[9; 100], 50).unwrap();
        let bytes = read(container);
        assert!(bytes.len() == 300 && bytes[50..150] == [9; 100] && bytes[150..] == [4; 150]);
    });
}

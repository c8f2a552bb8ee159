//! Pending writes: how they overlap, and the bytes that reach the file.

use super::*;
use aggio_types::datatype::Datatype;
use aggio_types::view::Representation;
use proptest::prelude::*;

/// A view of blocks of `length` bytes, `gap` bytes apart.
fn strided(start: u64, length: u64, gap: u64) -> View {
    let byte = Datatype::bytes(1);
    let block = Datatype::contiguous(length, &byte).unwrap();
    let filetype = block.resized(0, (length + gap) as i64).unwrap();
    View::new(start, byte, filetype, Representation::Native, false).unwrap()
}

fn add(pending: &mut Pending, view: &View, position: u64, bytes: &[u8]) {
    let datatype = Datatype::bytes(bytes.len() as u64);
    // SAFETY: the bytes are only read, before this function ends.
    let memory = unsafe { Memory::new(bytes.as_ptr().cast_mut(), datatype, 1) };
    pending.add(view, position, &memory, bytes.len() as u64).unwrap();
}

/// Where a write begins: most overlap, or few.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, 0..4000_u64]
}

/// The bytes that `pending` writes to a file, and `None` elsewhere.
fn written(pending: &Pending, size: usize) -> Vec<Option<u8>> {
    written_by(&pending.as_one_write().unwrap(), size)
}

/// The same of one write.
fn written_by((view, memory): &(View, Memory), size: usize) -> Vec<Option<u8>> {
    let mut bytes = vec![0; memory.len() as usize];
    memory.gather(0, &mut bytes);
    let mut file = vec![None; size];
    let (mut next, mut last) = (bytes.into_iter(), 0);
    for extent in view.extents(0, memory.len()) {
        assert!(extent.offset >= last, "ascending, each byte once");
        last = extent.end();
        for place in extent.offset..extent.end() {
            file[place as usize] = next.next();
        }
    }
    assert!(next.next().is_none());
    file
}

proptest! {
    #[test]
    fn one_write_leaves_what_all_of_them_leave_one_after_the_other(
        writes in prop::collection::vec(
            (start(), 1..20_u64, 0..30_u64, 0..40_u64, 1..60_usize),
            0..20,
        ),
        parted: usize,
    ) {
        let (mut pending, mut later) = (Pending::default(), Pending::default());
        let parted = parted % (writes.len() + 1);
        let mut file = vec![None; 8192];
        let mut byte = 0_u8;
        for (number, (start, length, gap, position, len)) in writes.into_iter().enumerate() {
            let view = strided(start, length, gap);
            let bytes: Vec<u8> = (0..len).map(|_| { byte = byte.wrapping_add(1); byte }).collect();
            add(if number < parted { &mut pending } else { &mut later }, &view, position, &bytes);
            let places = view.extents(position, len as u64).flat_map(|e| e.offset..e.end());
            places.zip(&bytes).for_each(|(place, byte)| file[place as usize] = Some(*byte));
        }
        later.add_before(pending);
        prop_assert_eq!(written(&later, 8192), file);
    }
}

#[test]
fn a_regular_pattern_costs_hardly_anything_to_remember() {
    let mut pending = Pending::default();
    let record = [7; 256];
    for step in 0..40_000 {
        add(&mut pending, &View::bytes(), step * 4 * 256, &record);
    }
    assert_eq!((pending.bytes(), pending.pieces()), (40_000 * 256, 40_000));
    assert!(pending.runs.len() <= 4, "parts of memory end runs: {}", pending.runs.len());
    // Nor to write, with a header that was written twice.
    add(&mut pending, &View::bytes(), 1 << 30, &[1; 100]);
    add(&mut pending, &View::bytes(), (1 << 30) + 4, &[2; 8]);
    let (view, memory) = pending.as_one_write().unwrap();
    assert_eq!(memory.len(), 40_000 * 256 + 100);
    assert!(view.filetype().tree_bytes() < 2000, "{}", view.filetype().tree_bytes());
}

#[test]
fn writes_longer_than_a_part_are_whole() {
    let mut pending = Pending::default();
    let long: Vec<u8> = (0..PART + 77).map(|k| k as u8).collect();
    add(&mut pending, &View::bytes(), 10, &long);
    add(&mut pending, &View::bytes(), 5, b"before");
    let file = written(&pending, PART + 100);
    assert_eq!(
        file[4..12],
        [None, Some(b'b'), Some(b'e'), Some(b'f'), Some(b'o'), Some(b'r'), Some(b'e'), Some(1)]
    );
    assert_eq!(file[PART + 86..PART + 88], [Some((PART + 76) as u8), None]);
}

proptest! {
    #[test]
    fn two_writes_leave_what_one_leaves_and_each_keeps_to_its_side(
        writes in prop::collection::vec((start(), 1..20_u64, 0..30_u64, 1..60_usize), 0..12),
        from in start(),
        len in 0..400_u64,
    ) {
        let (mut pending, last) = (Pending::default(), Extent::new(from, len));
        for (number, (at, length, gap, bytes)) in writes.iter().enumerate() {
            add(&mut pending, &strided(*at, *length, *gap), 0, &vec![number as u8; *bytes]);
        }
        let all = written(&pending, 8000);
        let [first, second] = pending.as_two_writes(last, Extent::default()).unwrap();
        let (first, second) = (written_by(&first, 8000), written_by(&second, 8000));
        for place in 0..8000 {
            let is_last = (last.offset..last.end()).contains(&(place as u64));
            let wanted = if is_last { (None, all[place]) } else { (all[place], None) };
            prop_assert_eq!((first[place], second[place]), wanted, "byte {}", place);
        }
        prop_assert_eq!(pending.touches(last), second.iter().any(Option::is_some));
    }
}

proptest! {
    #[test]
    fn a_part_is_written_alone_or_left(
        writes in prop::collection::vec((0..300_u64, 1..20_u64, 0..30_u64, 1..60_usize), 1..12),
        (at, len) in (0..400_u64, 0..60_u64),
    ) {
        let (mut pending, part) = (Pending::default(), Extent::new(at, len));
        for (number, (at, length, gap, len)) in writes.iter().enumerate() {
            add(&mut pending, &strided(*at, *length, *gap), 0, &vec![number as u8; *len]);
        }
        let all = written(&pending, 4000);
        let [without, none] = pending.as_two_writes(Extent::default(), part).unwrap();
        prop_assert!(none.1.is_empty());
        let without = written_by(&without, 4000);
        let alone = written(&pending.copy_of(part).unwrap(), 4000);
        for (place, byte) in all.into_iter().enumerate() {
            let is_in = (at..at + len).contains(&(place as u64));
            let wanted = if is_in { (None, byte) } else { (byte, None) };
            prop_assert_eq!((without[place], alone[place]), wanted, "byte {}", place);
        }
    }
}

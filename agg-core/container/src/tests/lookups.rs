//! Reads of many ranges at once, from containers with pieces in no order: their index has more
//! blocks than are kept in memory.

use crate::blob::*;
use crate::tests::how;
use aggio_base::Extent;
use proptest::prelude::*;
use std::path::Path;

/// Bytes of the file, more or less.
const SIZE: u64 = 20_000;

/// Pseudo-random numbers below a bound.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Writes pieces anywhere, by two writers in turn, some alone and some in frames with others; also
/// holes, and cuts that later pieces lengthen again. Returns the content of the file.
fn written(container: &Container, pieces: u64, seed: u64) -> Vec<u8> {
    let (mut numbers, mut model) = (Numbers(seed), Vec::new());
    let writers = [container.writer().unwrap(), container.writer().unwrap()];
    let mut left = pieces;
    while left > 0 {
        let writer = &writers[numbers.below(2) as usize];
        let count = (1 + numbers.below(4)).min(left);
        let list: Vec<(u64, Vec<u8>)> = (0..count)
            .map(|_| {
                let most = if numbers.below(50) == 0 { 900 } else { 40 };
                let len = 1 + numbers.below(most);
                let byte = 1 + numbers.below(255) as u8;
                (numbers.below(SIZE), (0..len).map(|n| byte.wrapping_add(n as u8)).collect())
            })
            .collect();
        let borrowed: Vec<(u64, &[u8])> = list.iter().map(|(at, data)| (*at, &**data)).collect();
        writer.write_pieces(&borrowed).unwrap();
        for (at, data) in &list {
            let (start, end) = (*at as usize, *at as usize + data.len());
            model.resize(model.len().max(end), 0);
            model[start..end].copy_from_slice(data);
        }
        left -= count;
        match numbers.below(150) {
            0 => {
                let size = SIZE / 2 + numbers.below(SIZE / 2);
                writer.set_size(size).unwrap();
                model.resize(size as usize, 0);
            }
            1 => {
                let hole = Extent::new(numbers.below(SIZE), numbers.below(300));
                writer.punch(hole).unwrap();
                let end = (hole.end() as usize).min(model.len());
                model[(hole.offset as usize).min(end)..end].fill(0);
            }
            _ => {}
        }
    }
    writers.into_iter().for_each(|writer| writer.close().unwrap());
    model
}

/// Some ranges: anywhere, in order, and again, some of them behind the end.
fn ranges(numbers: &mut Numbers) -> Vec<Extent> {
    let mut all: Vec<Extent> = (0..numbers.below(40))
        .map(|_| Extent::new(numbers.below(SIZE), numbers.below(120)))
        .collect();
    match numbers.below(3) {
        0 => all.sort_unstable_by_key(|range| range.offset),
        1 => all.extend(all.clone()),
        _ => {}
    }
    if numbers.below(4) == 0 {
        all.push(Extent::new(SIZE - 50 + numbers.below(2000), 100));
        all.push(Extent::new(0, 10));
    }
    all
}

/// The number of bytes that a read of `ranges` returns, and these bytes.
fn expected(model: &[u8], ranges: &[Extent]) -> (usize, Vec<u8>) {
    let mut bytes = Vec::new();
    for range in ranges {
        let at = |place: u64| model.len().min(place as usize);
        let part = &model[at(range.offset)..at(range.end())];
        bytes.extend_from_slice(part);
        if part.len() < range.len as usize {
            break;
        }
    }
    (bytes.len(), bytes)
}

fn compare(reader: &Reader, model: &[u8], numbers: &mut Numbers) {
    for _ in 0..20 {
        let ranges = ranges(numbers);
        let len: u64 = ranges.iter().map(|range| range.len).sum();
        let (count, mut bytes) = expected(model, &ranges);
        bytes.resize(len as usize, 0xEE);
        let mut found = vec![0xEE; len as usize];
        assert_eq!(reader.read_ranges(&mut found, &ranges).unwrap(), count, "{ranges:?}");
        assert!(found == bytes, "{ranges:?}");
    }
    let mut all = vec![0; model.len() + 7];
    assert_eq!(reader.read_at(&mut all, 0).unwrap(), model.len());
    assert!(all[..model.len()] == *model);
}

fn indexes(path: &Path) -> usize {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("index.")).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn ranges_of_pieces_without_order_are_what_was_written_there_last(
        pieces in 600_u64..1500, seed: u64, verify in 0_usize..3, again in 0_u64..40,
    ) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let verify = [Verify::Whole, Verify::Always, Verify::Never][verify];
        let mut numbers = Numbers(!seed);
        let container = Container::create(&path, &how()).unwrap();
        let open = container.reader().unwrap().verifying(verify).unwrap();
        let model = written(&container, pieces, seed);
        prop_assert_eq!(indexes(&path), 1);
        let reader = Container::open(&path).unwrap().reader().unwrap().verifying(verify).unwrap();
        compare(&reader, &model, &mut numbers);
        // The same of the logs, which a reader that was there before has scanned.
        open.refresh().unwrap();
        compare(&open, &model, &mut numbers);
        // Some more pieces behind the index, from a writer that is still open.
        let writer = container.writer().unwrap();
        let mut model = model;
        for _ in 0..again {
            let at = numbers.below(model.len() as u64 - 9) as usize;
            writer.write_at(b"more, new", at as u64).unwrap();
            model[at..at + 9].copy_from_slice(b"more, new");
        }
        reader.refresh().unwrap();
        compare(&reader, &model, &mut numbers);
        writer.close().unwrap();
    }
}

#[test]
fn one_reader_serves_several_threads_at_once() {
    let place = tempfile::tempdir().unwrap();
    let container = Container::create(&place.path().join("file"), &how()).unwrap();
    let model = written(&container, 1200, 77);
    let reader = container.reader().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (reader, model) = (&reader, &model);
            scope.spawn(move || (0..5).for_each(|_| compare(reader, model, &mut Numbers(thread))));
        }
    });
}

#[test]
fn a_block_of_the_index_whose_pieces_are_not_sorted_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let container = Container::create(&path, &how()).unwrap();
    written(&container, 700, 5);
    let index = path.join(format!("index.{}", container.reader().unwrap().generation()));
    let mut bytes = std::fs::read(&index).unwrap();
    let block = bytes.len() - 4096;
    // The last block, with two pieces in each other's place and a checksum that is right.
    let pieces: Vec<u8> = [&bytes[block + 40..block + 80], &bytes[block..block + 40]].concat();
    bytes[block..block + 80].copy_from_slice(&pieces);
    let sum = aggio_base::checksum::crc32c(&bytes[block..block + 4092]);
    bytes[block + 4092..].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&index, &bytes).unwrap();
    let reader = container.reader().unwrap();
    let mut all = vec![0; reader.size() as usize];
    let error = reader.read_at(&mut all, 0).unwrap_err();
    assert!(error.to_string().contains("is not sorted"), "{error}");
    assert_eq!(error.errno(), libc::EIO);
}

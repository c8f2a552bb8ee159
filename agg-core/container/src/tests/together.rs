//! Writers at the same time, on threads, each with a descriptor of its own as in separate
//! processes.

use crate::blob::*;
use crate::tests::how;
use aggio_base::Extent;

#[test]
fn appends_of_many_writers_neither_overlap_nor_leave_gaps() {
    const RECORD: usize = 37;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    Container::create(&path, &how()).unwrap();
    std::thread::scope(|scope| {
        for number in 1..=4_u8 {
            let path = &path;
            scope.spawn(move || {
                let writer = Container::open(path).unwrap().writer().unwrap();
                for _ in 0..200 {
                    writer.append(&[number; RECORD]).unwrap();
                }
                writer.close().unwrap();
            });
        }
    });
    let container = Container::open(&path).unwrap();
    assert!(container.attributes().unwrap().sealed, "the last one sealed");
    let mut bytes = vec![0; 800 * RECORD];
    let reader = container.reader().unwrap();
    assert_eq!(reader.size(), bytes.len() as u64);
    reader.read_at(&mut bytes, 0).unwrap();
    let mut counts = [0; 5];
    for record in bytes.chunks(RECORD) {
        assert!(record.iter().all(|byte| *byte == record[0]), "records are whole");
        counts[record[0] as usize] += 1;
    }
    assert_eq!(counts, [0, 200, 200, 200, 200]);
}

#[test]
fn writes_and_truncations_at_the_same_time_leave_one_order_that_all_see() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    let container = Container::create(&path, &how()).unwrap();
    let watcher = container.writer().unwrap();
    let writers = [0, 1].map(|_| container.writer().unwrap());
    std::thread::scope(|scope| {
        for number in 0..4_u64 {
            // Two threads share a writer.
            let writer = &writers[number as usize / 2];
            scope.spawn(move || {
                for k in 0..600_u64 {
                    let at = (k * 7919 + number * 104_729) % 5000;
                    match k % 5 {
                        0 if number != 2 => writer.set_size(at).unwrap(),
                        1 => writer.punch(Extent::new(at, 50)).unwrap(),
                        _ => assert_eq!(writer.write_at(&[number as u8 + 1; 90], at).unwrap(), 90),
                    }
                }
            });
        }
    });
    writers.into_iter().try_for_each(Writer::close).unwrap();
    let live = container.reader().unwrap();
    assert_eq!(watcher.size().unwrap(), live.size(), "the shared size is what the logs say");
    let mut before = vec![0; live.size() as usize];
    live.read_at(&mut before, 0).unwrap();
    watcher.close().unwrap();
    let sealed = Container::open(&path).unwrap().reader().unwrap();
    let mut after = vec![0; sealed.size() as usize];
    sealed.read_at(&mut after, 0).unwrap();
    assert!(sealed.is_sealed() && before == after);
}

#[test]
fn a_growth_takes_nothing_away_from_those_who_write_at_the_same_time() {
    const RECORD: u64 = 50;
    const RECORDS: u64 = 1500;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    let container = Container::create(&path, &how()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..2_u64 {
            let container = &container;
            scope.spawn(move || {
                let writer = container.writer().unwrap();
                for record in 0..RECORDS {
                    let at = (2 * record + number) * RECORD;
                    writer.write_at(&[number as u8 + 1; RECORD as usize], at).unwrap();
                }
                writer.close().unwrap();
            });
        }
        // The growths end close to the current size.
        let grower = container.writer().unwrap();
        while grower.size().unwrap() < 2 * RECORDS * RECORD {
            let size = grower.size().unwrap();
            grower.grow(size + 20).unwrap();
            assert!(grower.size().unwrap() >= size + 20);
        }
        grower.close().unwrap();
    });
    let reader = container.reader().unwrap();
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0).unwrap();
    for (index, record) in bytes.chunks(RECORD as usize).enumerate().take(2 * RECORDS as usize) {
        let whole = record.iter().all(|byte| *byte == (index % 2) as u8 + 1);
        assert!(whole, "record {index} was acknowledged");
    }
}

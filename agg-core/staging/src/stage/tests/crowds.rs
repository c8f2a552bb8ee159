//! Openers that come, go, stage and drain at the same time.

use super::*;

#[test]
fn openers_that_come_and_go_at_once_lose_no_byte() {
    for bench in Bench::both() {
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                let bench = &bench;
                scope.spawn(move || {
                    for round in 0..60u64 {
                        let file = bench.open(Some(TERMS));
                        // Neighbours share words of bits and pages.
                        write(&*file, &[number + 1], round * 4 + u64::from(number));
                        if round % 3 == 0 {
                            file.sync().unwrap();
                        }
                        file.close(Closing::Complete).unwrap();
                    }
                });
            }
        });
        let wanted: Vec<u8> = (0..240).map(|at| at % 4 + 1).collect();
        assert_eq!((bench.on_disk(), bench.has_stage()), (wanted, false));
    }
}

#[test]
fn openers_that_leave_at_once_leave_no_stage() {
    for bench in Bench::both() {
        for round in 0..300 {
            let files: Vec<_> = (0..4).map(|_| bench.open(Some(TERMS))).collect();
            write(&*files[0], b"x", round);
            let barrier = std::sync::Barrier::new(files.len());
            std::thread::scope(|scope| {
                for file in &files {
                    scope.spawn(|| {
                        barrier.wait();
                        file.close(Closing::Complete).unwrap();
                    });
                }
            });
            assert!(!bench.has_stage(), "round {round}");
        }
    }
}

#[test]
fn draining_while_others_stage_loses_no_byte() {
    for bench in Bench::both() {
        let files: Vec<_> = (0..3).map(|_| bench.open(Some(TERMS))).collect();
        std::thread::scope(|scope| {
            let (drainer, writers) = files.split_first().unwrap();
            for (number, file) in writers.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..2000u64 {
                        let value = (round / 100) as u8 * 2 + number as u8;
                        write(&**file, &[value; 100], (round % 100) * 200 + number as u64 * 100);
                        assert_eq!(
                            read(&**file, (round % 100) * 200 + number as u64 * 100, 1),
                            [value]
                        );
                    }
                });
            }
            scope.spawn(move || (0..200).for_each(|_| drainer.sync().unwrap()));
        });
        files.iter().for_each(|file| file.close(Closing::Complete).unwrap());
        let disk = bench.on_disk();
        assert_eq!(disk.len(), 20_000);
        for (at, byte) in disk.iter().enumerate() {
            assert_eq!(*byte, 38 + (at / 100 % 2) as u8, "byte {at}");
        }
    }
}

//! Requests in and out of collective calls: counted as system calls, compared with the report.

use aggio_tests::{Directory, Finished, Mpi, calls_on, compile, installed, library};
use std::path::Path;

const RANKS: u32 = 4;
/// Bytes of a piece, and pieces of each rank: those of all ranks lie in turn and fill the file.
const PIECE: u64 = 64;
const PIECES: u64 = 8192;
const BYTES: u64 = PIECE * PIECES * RANKS as u64;
/// Bytes that are stored or fetched at a time.
const WINDOW: u64 = 256 << 10;

/// Every way to read or write a file, or to have it in memory.
const KINDS: &str = "read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2,mmap,\
                     sendfile,copy_file_range,splice,io_uring_enter,fallocate,ftruncate";

/// One collective call on `file`: how it ended, and its system calls on the file.
fn traced(mpi: &Mpi, library: &Path, file: &Path, direction: &str) -> (Finished, Vec<String>) {
    let (piece, pieces) = (PIECE.to_string(), PIECES.to_string());
    let hints = format!("*:cb_buffer_size={WINDOW}");
    let variables =
        [("AGGIO_REPORT", "json"), ("AGGIO_TEST_COSTS", "assumed"), ("AGGIO_HINTS", &hints)];
    let arguments = [direction, &piece, &pieces];
    let program = compile("traffic.c", mpi);
    let (finished, calls) =
        calls_on(file, KINDS, &program, &arguments, (RANKS, library), &variables);
    let good = finished.stdout.lines().any(|line| line == "ok");
    assert!(good && finished.succeeded(), "{}: {}", mpi.name, finished.report());
    (finished, calls)
}

#[test]
fn a_collective_call_makes_one_request_for_each_window_and_the_report_says_so() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let data = Directory::new();
        let file = data.path().join("data");
        let directions = [("write", "pwrite64(", "writes_out"), ("read", "pread64(", "reads_out")];
        for (direction, call, counter) in directions {
            let (finished, calls) = traced(&mpi, &library, &file, direction);
            let report = finished.json_report().expect("a report");
            let what = format!("{direction}, {}: {report:?}, {calls:#?}", mpi.name);
            let requests = BYTES / WINDOW;
            assert_eq!(report["pieces_in"], PIECES * u64::from(RANKS), "{what}");
            assert!(calls.iter().all(|line| line.contains(call)), "{what}");
            assert_eq!((calls.len() as u64, report[counter]), (requests, requests), "{what}");
            let whole = format!(", {WINDOW}, ");
            assert!(calls.iter().all(|line| line.contains(&whole)), "{what}");
            assert!(requests * 100 <= report["pieces_in"]);
        }
        assert_eq!(file.metadata().expect("the file").len(), BYTES);
    }
}

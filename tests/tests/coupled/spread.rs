//! Jobs over several simulated hosts write one file in memory. Readers on these hosts and on others
//! find every value, with the writer or the reader first, and get an error when a rank dies.

use aggio_tests::hosts::{CoupledHosts as Place, Plan, end};
use aggio_tests::{Family, Mpi, Program, compile, compile_with, installed};
use std::io::Read;
use std::path::Path;
use std::process::Child;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Makes `hosts` hosts for two ranks each.
fn place(hosts: u32) -> Option<Place> {
    Place::new(Plan::new(hosts, 2), Path::new(AGENT))
}

const GENERATIONS: &str = "3";

const RECORDS: &str = "12";

/// Exchanges a file between a job of `writers` ranks, two on each host, and one of two readers. The
/// readers are on a host of the writers; on a host without writers and started first, so that their
/// host owns the name; and there after all writers have ended.
#[track_caller]
fn exchange(place: &Place, mpi: &Mpi, program: &Program, writers: u32, file: &str, more: &[&str]) {
    let hosts = place.cluster.names();
    let last = hosts.len() - 1;
    let orders = [(true, 1), (true, last), (false, last)];
    // With more than two hosts, each exchange takes longer and tests little that is new.
    let orders = if last > 2 { &orders[1..2] } else { &orders[..] };
    let words = |what, how| [&[what, how, file, GENERATIONS], more].concat();
    for (reader_first, host) in orders.iter().copied() {
        let what = format!("{}, reader first {reader_first}, on {}", mpi.name, hosts[host]);
        let read = || {
            let mut reader = place.reader(&hosts[host], mpi, program, &words("read", "columns"));
            reader.spawn().expect("mpirun")
        };
        let early = reader_first.then(read);
        if reader_first {
            place.until_waiting(1);
        }
        let mut write = place.job(mpi, writers, program, &words("write", "blocks"));
        let wrote = place.succeeds(&what, write.spawn().expect("mpirun"));
        let what = format!("{what}: {wrote}");
        let text = place.succeeds(&what, early.unwrap_or_else(read));
        assert!(text.contains("generation 3: right"), "{what}: {text}");
        place.leaves_nothing();
    }
}

/// Exchanges subarrays with MPI-IO: neighbours on different hosts share pages and cache lines.
fn subarrays(family: Family, hosts: u32) {
    let Some(place) = place(hosts + 1) else { return };
    for mpi in installed().into_iter().filter(|mpi| mpi.family == family) {
        let program = compile("coupled_mpi.c", &mpi);
        exchange(&place, &mpi, &program, 2 * hosts, &place.file("a.dat"), &["103", "67"]);
    }
}

#[test]
fn open_mpi_over_two_hosts_writes_subarrays() {
    subarrays(Family::OpenMpi, 2);
}

#[test]
fn mpich_over_two_hosts_writes_subarrays() {
    subarrays(Family::Mpich, 2);
}

#[test]
fn open_mpi_over_three_hosts_writes_subarrays() {
    subarrays(Family::OpenMpi, 3);
}

#[test]
fn mpich_over_three_hosts_writes_subarrays() {
    subarrays(Family::Mpich, 3);
}

#[test]
fn a_job_over_two_hosts_reads_the_parts_of_a_large_file_that_its_ranks_want() {
    let Some(place) = place(3) else { return };
    for mpi in installed() {
        let program = compile("coupled_mpi.c", &mpi);
        for how in ["columns", "rows"] {
            let file = place.file(&format!("{how}.dat"));
            let words = |what, how| [what, how, &file[..], GENERATIONS, "3001", "1203"];
            // The name belongs to the host of the writer, which has no rank of the reader.
            let mut write = place.reader("node3", &mpi, &program, &words("write", "blocks"));
            let mut write = write.env("LOUD", "1").spawn().expect("mpirun");
            await_line(&mut write);
            let before = place.cluster.traffic()[2];
            let mut read = place.job(&mpi, 4, &program, &words("read", how));
            let read = read.env("AGGIO_REPORT", "json").spawn();
            let wrote = place.succeeds(&mpi.name, write);
            let text = place.succeeds(&wrote, read.expect("mpirun"));
            assert!(text.contains("generation 3: right"), "{}, {how}: {text}", mpi.name);
            // Each rank waited for three files, and for parts of them.
            for (name, least) in [("waits", 3 * 4 * 2), ("nanoseconds", 1), ("bytes", 1 << 20)] {
                let sum = sum_of(&text, &format!("\"coupled_{name}\":"));
                assert!(sum >= least, "{}, {how}: {name} {sum}: {text}", mpi.name);
            }
            // Each byte goes to one of the two hosts, unless both need some of its unit.
            let sent = (place.cluster.traffic()[2] - before).bytes_out;
            let all = 3 * 4 * 3001 * 1203;
            assert!(sent > all && 2 * sent < 3 * all, "{}, {how}: {sent} of {all}", mpi.name);
            place.leaves_nothing();
        }
    }
}

/// Returns the sum of the numbers that follow `name` in a text.
fn sum_of(text: &str, name: &str) -> u64 {
    let numbers = text.split(name).skip(1);
    let digits = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok();
    numbers.filter_map(digits).sum()
}

/// Waits until a job has printed a line.
fn await_line(child: &mut Child) {
    let output = child.stdout.as_mut().expect("its output is a pipe");
    let mut byte = [0];
    while byte[0] != b'\n' {
        output.read_exact(&mut byte).expect("a line");
    }
}

#[test]
fn jobs_over_two_hosts_write_netcdf_files() {
    let Some(place) = place(3) else { return };
    // Debian builds PnetCDF for Open MPI only.
    for mpi in installed().into_iter().filter(|mpi| mpi.family == Family::OpenMpi) {
        let program = compile_with("coupled_pnetcdf.c", &mpi, &["-lpnetcdf"]);
        exchange(&place, &mpi, &program, 4, &place.file("a.nc"), &["2"]);
    }
}

#[test]
fn ranks_on_several_hosts_see_what_others_have_synchronised() {
    let Some(place) = place(3) else { return };
    for mpi in installed() {
        let program = compile("coupled_spread.c", &mpi);
        let file = place.file("a.dat");
        let job = place.job(&mpi, 6, &program, &[&file]).spawn().expect("mpirun");
        place.succeeds(&mpi.name, job);
    }
}

#[test]
fn when_a_rank_on_the_second_host_is_killed_no_reader_gets_what_is_left() {
    let Some(place) = place(3) else { return };
    for mpi in installed() {
        let program = compile("coupled_mpi.c", &mpi);
        // A reader of a name whose writer has died gets an error at once.
        let file = place.file(&format!("{}.dat", mpi.name));
        let words = |what| [what, "rows", &file, "1", "103", "67"];
        let read = |host: &str| place.reader(host, &mpi, &program, &words("read")).spawn();
        let readers = ["node1", "node2", "node3"].map(|host| read(host).expect("mpirun"));
        place.until_waiting(3);
        let mut write = place.job(&mpi, 4, &program, &words("write"));
        let (succeeded, text) = end(write.env("FEWER", "1").spawn().expect("mpirun"));
        assert!(!succeeded, "{text}");
        for reader in readers {
            let (succeeded, text) = end(reader);
            assert!(!succeeded && text.contains("open: MPI_ERR_IO"), "{}: {text}", mpi.name);
            assert!(text.contains("died before generation 1 was complete"), "{text}");
        }
    }
}

#[test]
fn records_that_a_job_over_two_hosts_writes_are_read_while_it_writes_others() {
    let Some(place) = place(3) else { return };
    let mut parts = 0;
    // Debian builds PnetCDF for Open MPI only.
    for mpi in installed().into_iter().filter(|mpi| mpi.family == Family::OpenMpi) {
        let program = compile_with("coupled_steps.c", &mpi, &["-lpnetcdf"]);
        for (host, reader_first, width) in
            [("node3", true, "5"), ("node1", false, "70000"), ("node2", true, "9000")]
        {
            let file = place.file(&format!("{host}.step"));
            let words = ["read", &file, RECORDS, width];
            let read = || place.reader(host, &mpi, &program, &words).spawn().expect("mpirun");
            let early = reader_first.then(read);
            if reader_first {
                place.until_waiting(1);
            }
            let words = ["write", &file, "5", RECORDS, width, "20"];
            let write = place.job(&mpi, 4, &program, &words).spawn().expect("mpirun");
            let late = early.unwrap_or_else(read);
            let wrote = place.succeeds(host, write);
            let seen = place.succeeds(&wrote, late);
            assert_eq!(seen.lines().last(), Some(RECORDS), "{host}: {seen}");
            parts += usize::from(seen.lines().count() > 2);
            place.leaves_nothing();
        }
        assert!(parts > 0, "no reader saw a part of the records");
    }
}

/// Lets a reader with a rank on each of two hosts read records that a writer on a third one writes.
/// The host of the program that is first owns the name. Returns the numbers of records that the
/// reader saw.
#[track_caller]
fn followed(
    place: &Place,
    (mpi, program): (&Mpi, &Program),
    words: [&[&str]; 2],
    reads_first: bool,
) -> String {
    let job = |hosts, words| place.spread(mpi, hosts, program, words).spawn().expect("mpirun");
    let (write, read) = (|| job((3, 3), words[0]), || job((1, 2), words[1]));
    let (write, read) = if reads_first {
        let (read, ()) = (read(), place.until_waiting(1));
        (write(), read)
    } else {
        let (write, ()) = (write(), place.until_written());
        (write, read())
    };
    // If the reader fails, the writer waits for it.
    let seen = place.succeeds(&mpi.name, read);
    place.succeeds(&seen, write);
    place.leaves_nothing();
    seen
}

/// Rank 0 alone asks for the number of records; the rank on another host reads them.
fn told_records(family: Family) {
    let Some(place) = Place::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    for mpi in installed().into_iter().filter(|mpi| mpi.family == family) {
        let (program, file) = (compile("coupled_told.c", &mpi), place.file("a.step"));
        for (width, reader_first) in [("7", true), ("9000", false)] {
            let write = ["write", &file, RECORDS, width, "10"];
            let read = ["read", &file, RECORDS, width];
            let seen = followed(&place, (&mpi, &program), [&write, &read], reader_first);
            let all: String = (1..=12).map(|number| format!("{number}\n")).collect();
            assert_eq!(seen, all, "{}, reader first {reader_first}", mpi.name);
        }
    }
}

#[test]
fn open_mpi_reads_records_that_a_rank_on_another_host_was_told_of() {
    told_records(Family::OpenMpi);
}

#[test]
fn mpich_reads_records_that_a_rank_on_another_host_was_told_of() {
    told_records(Family::Mpich);
}

#[test]
fn pnetcdf_reads_records_that_a_rank_on_another_host_was_told_of() {
    let Some(place) = Place::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    // Debian builds PnetCDF for Open MPI only.
    for mpi in installed().into_iter().filter(|mpi| mpi.family == Family::OpenMpi) {
        let program = compile_with("coupled_steps.c", &mpi, &["-lpnetcdf"]);
        let file = place.file("a.step");
        // Rank 0 reads the header later than the other rank has opened the file.
        let write = ["write", &file, "2", "300", "7", "1"];
        let seen = followed(&place, (&mpi, &program), [&write, &["last", &file, "300", "7"]], true);
        assert_eq!(seen.lines().last(), Some("300"), "{seen}");
    }
}

#[test]
fn what_a_job_over_two_hosts_synchronises_is_seen_on_all() {
    let Some(place) = place(3) else { return };
    for mpi in installed() {
        let file = place.file("a.sync");
        let program = compile("coupled_spread.c", &mpi);
        let job = place.job(&mpi, 6, &program, &[&file]).spawn().expect("mpirun");
        place.succeeds(&mpi.name, job);
        let (program, file) = (compile("coupled_mpi.c", &mpi), place.file("b.sync"));
        let words = |what| [what, "rows", &file[..], "1", "103", "67"];
        let read = place.reader("node3", &mpi, &program, &words("read")).spawn();
        let write = place.job(&mpi, 4, &program, &words("write")).spawn().expect("mpirun");
        let wrote = place.succeeds(&mpi.name, write);
        place.succeeds(&wrote, read.expect("mpirun"));
        place.leaves_nothing();
    }
}

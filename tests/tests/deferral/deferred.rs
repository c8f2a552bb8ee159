//! MPI programs with writes that wait until the file is synchronised or closed (`AGGIO_DEFER`), in
//! memory of the node or, with `AGGIO_STAGE=none` and on several nodes, of each rank.

use aggio_tests::battery::{PROGRAMS, failure_with};
use aggio_tests::hosts::Plan;
use aggio_tests::{
    Directory, Finished, Job, Mpi, Program, compile, factor, installed, installed_for, library,
    names_in, repository, required, skip,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Writes wait at any cost; on the file systems of tests it would not be worth it.
const ALWAYS: (&str, &str) = ("AGGIO_HINTS", "*:aggio_tune=defer_always=true");

/// Writes wait in the memory of each rank.
const BUFFERED: (&str, &str) = ("AGGIO_STAGE", "none");

/// Programs in which a rank alone, or another program, reads bytes that a rank has written and not
/// synchronised.
const REFUSED: &[&str] = &["deferred.c", "explicit.c", "gaps.c", "overlap.c", "requests.c"];

#[test]
fn every_program_of_the_battery_is_content_when_its_writes_wait() {
    let Some(library) = library() else { return };
    let mut reports = Vec::new();
    for (row, (source, ranks)) in PROGRAMS.iter().enumerate() {
        for (number, mpi) in installed_for(row).into_iter().enumerate() {
            // In memory of the node, and of each rank.
            let is_buffered = !REFUSED.contains(source) && (row + number).is_multiple_of(2);
            let place = if is_buffered { BUFFERED } else { ("AGGIO_STAGE", "memory") };
            let variables = [("AGGIO_DEFER", "*"), ALWAYS, place, ("AGGIO_STRICT", "1")];
            reports.extend(failure_with(source, *ranks, &mpi, Some(&library), &variables));
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

#[test]
fn a_checkpoint_of_a_hundred_collective_writes_reaches_the_file_in_a_few_requests() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let data = Directory::new();
        let finished = Job::new(&compile("checkpoint.c", &mpi))
            .ranks(4)
            .argument(data.path().join("data"))
            .argument("20")
            .argument("5")
            .variable("AGGIO_DEFER", "*")
            .variable(BUFFERED.0, BUFFERED.1)
            .variable(ALWAYS.0, ALWAYS.1)
            .variable("AGGIO_REPORT", "json")
            .variable("AGGIO_TEST_COSTS", "assumed")
            .preload(Some(&library))
            .run();
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        let report = finished.json_report().expect("a report");
        // Every rank's 100 writes wait; one flush of each rank writes 409,600 bytes.
        assert_eq!((report["deferred"], report["flushes"]), (400, 4), "{}", mpi.name);
        assert!(report["writes_out"] <= 5, "{}: {} requests", mpi.name, report["writes_out"]);
    }
}

#[test]
fn writes_of_ranks_on_several_hosts_wait_unless_the_hosts_cannot_ask_each_other() {
    let Some(library) = library() else { return };
    let agent = Path::new(env!("CARGO_BIN_EXE_aggio-test-host"));
    let Some(cluster) = Plan::new(2, 2).start_if_possible(agent) else { return };
    for mpi in installed() {
        let data = Directory::new();
        let checkpoint = |stage: Option<&Path>| {
            let job = Job::new(&compile("checkpoint.c", &mpi)).on(&cluster);
            let job = job.argument(data.path().join("data")).argument("20").argument("5");
            let job = job.variable("AGGIO_DEFER", "*").variable(ALWAYS.0, ALWAYS.1);
            let job = stage.iter().fold(job, |job, stage| job.variable("AGGIO_STAGE", stage));
            let finished = job.variable("AGGIO_REPORT", "json").preload(Some(&library)).run();
            assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
            finished.json_report().expect("a report")["deferred"]
        };
        assert_eq!(checkpoint(None), 400, "{}", mpi.name);
        assert_eq!(checkpoint(Some(data.path())), 0, "{}: system calls see all", mpi.name);
    }
}

#[test]
fn a_checkpoint_for_which_memory_has_no_room_is_written_together_all_the_same() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let data = Directory::new();
        let checkpoint = |path: PathBuf| {
            let job = Job::new(&compile("checkpoint.c", &mpi)).ranks(4).argument(path);
            job.argument("20").argument("5")
        };
        let native = checkpoint(data.path().join("native")).run();
        assert!(native.succeeded(), "{}: {}", mpi.name, native.report());
        let job = checkpoint(data.path().join("data"))
            .variable("AGGIO_DEFER", "*")
            .variable(BUFFERED.0, BUFFERED.1)
            .variable("AGGIO_HINTS", "*:aggio_tune=defer_always=true defer_buffer=10000")
            .variable("AGGIO_REPORT", "json")
            .variable("AGGIO_TEST_COSTS", "assumed");
        let finished = job.preload(Some(&library)).run();
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        let files = ["native", "data"].map(|name| std::fs::read(data.path().join(name)).unwrap());
        assert!(files[0] == files[1], "{}: other bytes", mpi.name);
        assert_eq!(names_in(data.path()), ["data", "native"], "{}", mpi.name);
        let report = finished.json_report().expect("a report");
        // Memory has room for 9 of the 100 writes of 1,024 bytes of a rank.
        assert_eq!((report["deferred"], report["flushes"]), (400, 4 * 12), "{}", mpi.name);
    }
}

/// Where a file of CDF-5 has its number of records: none yet, then one more each time that it is
/// written.
const RECORDS: std::ops::Range<usize> = 4..12;

/// Two ranks write a netCDF file, and another open adds its last record; one rank is killed at its
/// system call `number`. Up to `room` bytes wait in buffers, or are staged in memory.
fn climate(mpi: &Mpi, folder: &Path, room: &str, kill: Option<(u32, u64)>) -> Finished {
    let (room, place) = room.split_once(' ').unwrap_or((room, "none"));
    let program = compile("climate.c", mpi);
    let killer = PathBuf::from(env!("CARGO_BIN_EXE_aggio-test-kill"));
    let killer = Program { path: killer, mpi: program.mpi.clone() };
    let job = match kill {
        None => Job::new(&program),
        Some((rank, number)) => {
            let job = Job::new(&killer).argument("--rank").argument(rank.to_string());
            job.argument(number.to_string()).argument(&program.path)
        }
    };
    let job = job.ranks(2).argument(folder.join("out.nc")).argument("5").argument("late");
    let hints = format!("{}:aggio_tune=defer_buffer={room}", ALWAYS.1);
    let job = job.variable("AGGIO_DEFER", "*").variable("AGGIO_HINTS", &hints);
    job.variable("AGGIO_STAGE", place).preload(library().as_deref()).run()
}

/// Every byte is the right one or was never written, and so many records as the header announces
/// are there.
fn has_what_it_announces(found: &[u8], whole: &[u8], what: &str) {
    assert!(found.len() <= whole.len(), "{what}: {} bytes", found.len());
    let wrong = (0..found.len())
        .find(|at| !RECORDS.contains(at) && found[*at] != whole[*at] && found[*at] != 0);
    assert_eq!(wrong, None, "{what}: a byte that nobody has written");
    let announced = match found.get(RECORDS) {
        Some([0, 0, 0, 0, 0, 0, 0, 0]) | None => return,
        Some([0, 0, 0, 0, 0, 0, 0, records @ 1..=3]) => with_records(whole, *records),
        other => panic!("{what}: the number of records is {other:?}"),
    };
    let beside = |at: usize| !RECORDS.contains(&at);
    let missing =
        (0..announced.len()).find(|at| beside(*at) && found.get(*at) != Some(&announced[*at]));
    assert_eq!(missing, None, "{what}: data that the header announces");
}

#[test]
fn a_rank_that_is_killed_while_writes_wait_leaves_no_header_without_its_data() {
    if library().is_none() {
        return;
    }
    let rooms = ["256M", "500", "256M memory", "500 memory"];
    for (mpi, room) in installed().iter().flat_map(|mpi| rooms.map(|room| (mpi, room))) {
        let directory = Directory::new();
        let counted = climate(mpi, directory.path(), room, Some((0, u64::MAX)));
        let said = counted.stdout.split("ended after ").nth(1).unwrap_or_default();
        let calls: u64 = said.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
        assert!(calls > 200, "{}", counted.report());
        let whole = std::fs::read(directory.path().join("out.nc")).expect("the file");
        let jobs = 4 * factor() as u64;
        for job in 0..jobs {
            let number = calls - calls * job / jobs / 3;
            let rank = (job % 2) as u32;
            let directory = Directory::new();
            let finished = climate(mpi, directory.path(), room, Some((rank, number)));
            let what = format!(
                "{}, memory for {room}, rank {rank}, call {number} of {calls}: {}",
                mpi.name,
                finished.report()
            );
            assert!(finished.status.is_some(), "a rank is left waiting: {what}");
            let path = directory.path().join("out.nc");
            let found = std::fs::read(&path).unwrap_or_default();
            has_what_it_announces(&found, &whole, &what);
            assert!(names_in(directory.path()).iter().all(|name| name == "out.nc"), "{what}");
            let again = climate(mpi, directory.path(), room, None);
            assert!(again.succeeded(), "{what}\nagain: {}", again.report());
            assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == whole), "{what}\nagain");
            assert_eq!(names_in(directory.path()), ["out.nc"], "{what}\nagain");
        }
    }
}

/// The part of the file with so many records, apart from their number in the header.
fn with_records(whole: &[u8], records: u8) -> &[u8] {
    let header = aggio_formats::cdf::parse(whole).expect("a netCDF file");
    let layout = aggio_formats::cdf::Layout::of(&header).expect("a good header");
    &whole[..layout.end(records.into()).expect("it is small") as usize]
}

#[test]
fn every_sequence_of_three_file_calls_ends_and_stores_what_it_wrote() {
    let Some(library) = library() else { return };
    // Calls of `sequences.c`, and the distance of the sequences that are tried: all of a few calls,
    // some of all of them.
    let tried: &[(&str, &str)] =
        if factor() > 1 { &[("99", "1")] } else { &[("3", "1"), ("99", "199")] };
    let small = "*:aggio_tune=defer_always=true defer_buffer=100 defer_spill=0";
    let defer = ("AGGIO_DEFER", "*");
    let small = ("AGGIO_HINTS", small);
    let modes = [
        &[][..],
        &[defer],
        &[defer, ALWAYS, BUFFERED],
        &[defer, ALWAYS],
        &[defer, small, BUFFERED],
    ];
    for mpi in installed() {
        for (ranks, variables) in [3, 3, 2, 3, 3].into_iter().zip(modes) {
            for (calls, distance) in tried {
                let data = Directory::new();
                let mut job = Job::new(&compile("sequences.c", &mpi))
                    .ranks(ranks)
                    .argument(data.path().join("data"))
                    .argument(calls)
                    .argument("0")
                    .argument(distance)
                    .limit(Duration::from_secs(120 * factor() as u64));
                for (name, value) in variables {
                    job = job.variable(name, value);
                }
                let finished = job.preload(Some(&library)).run();
                let what = format!("{}, {variables:?}", mpi.name);
                assert!(finished.succeeded(), "{what}: {}", finished.report());
            }
        }
    }
}

#[test]
fn what_waits_on_any_rank_is_in_the_file_when_a_rank_ends_the_job_by_force() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        for (way, place) in ["abort", "fatal"].map(|way| [(way, "none"), (way, "memory")]).concat()
        {
            let data = Directory::new();
            let path = data.path().join("data");
            let job = Job::new(&compile("aborts.c", &mpi)).ranks(3).argument(&path).argument(way);
            let finished = job
                .variable("AGGIO_DEFER", "*")
                .variable(ALWAYS.0, ALWAYS.1)
                .variable("AGGIO_STAGE", place)
                .preload(Some(&library))
                .run();
            let what = format!("{}, {way}, {place}: {}", mpi.name, finished.report());
            assert!(finished.status.is_some_and(|status| !status.success()), "{what}");
            let wanted = [1, 2, 3].map(|byte| [byte; 100]).concat();
            assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == wanted), "{what}");
        }
    }
}

#[test]
fn what_is_staged_in_memory_is_in_the_file_when_processes_exit_without_a_word() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let data = Directory::new();
        let path = data.path().join("data");
        let job = Job::new(&compile("aborts.c", &mpi)).ranks(3).argument(&path).argument("exit");
        let job = job.variable("AGGIO_DEFER", "*").variable(ALWAYS.0, ALWAYS.1);
        let finished = job.preload(Some(&library)).run();
        let what = format!("{}: {}", mpi.name, finished.report());
        assert!(finished.status.is_some(), "it ends: {what}");
        let wanted = [1, 2, 3].map(|byte| [byte; 100]).concat();
        assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == wanted), "{what}");
    }
}

/// The PnetCDF program `SOURCE`, if there is the library, which Debian has for Open MPI; if tests
/// are required, it is there.
fn pnetcdf(source: &str, place: &Path) -> Option<Program> {
    let mpi = installed().into_iter().find(|mpi| mpi.name == "openmpi")?;
    let (input, path) = (repository().join("tests/programs").join(source), place.join("program"));
    let mut compiler = Command::new(mpi.compiler(&input));
    let done = compiler.arg("-o").arg(&path).arg(&input).arg("-lpnetcdf").output();
    let works = done.is_ok_and(|output| output.status.success());
    assert!(works || !required(), "libpnetcdf-dev is missing (tests/setup.sh check)");
    works.then_some(Program { path, mpi })
}

#[test]
fn a_pnetcdf_program_finds_what_ranks_wrote_together_and_alone_through_two_handles() {
    let (place, Some(library)) = (Directory::new(), library()) else { return };
    let Some(program) = pnetcdf("pnetcdf_alone.c", place.path()) else { return };
    let defer = ("AGGIO_DEFER", "*");
    for variables in [&[][..], &[defer], &[defer, ALWAYS], &[defer, ALWAYS, BUFFERED]] {
        let job = Job::new(&program).ranks(4).argument(place.path().join("data.nc"));
        let set = |job: Job, (name, value): &(&str, &str)| job.variable(name, value);
        let finished = variables.iter().fold(job, set).preload(Some(&library)).run();
        assert!(finished.succeeded(), "{variables:?}: {}", finished.report());
    }
}

#[test]
fn ranks_with_network_and_mount_namespaces_of_their_own_see_what_others_have_written() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let folder = Directory::new();
        let job = Job::new(&compile("namespaces.c", &mpi)).ranks(4);
        let job = job.argument(folder.path().join("data")).preload(Some(&library));
        let finished = job.variable("AGGIO_DEFER", "*").variable(ALWAYS.0, ALWAYS.1).run();
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        if finished.stdout.contains("none") {
            skip("no rank may leave its network namespace");
        }
    }
}

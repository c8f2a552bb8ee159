//! Visibility to ranks, and to programs without MPI, of bytes that a rank has written and not
//! synchronised, where the program has ordered the two by messages (`programs/visibility.c`).

use aggio_tests::{
    Directory, Finished, Job, Mpi, compile, factor, installed, installed_for, library, names_in,
};
use std::path::Path;

/// Runs the program on `ranks` ranks, which access the file by MPI-IO only if `alone`.
fn run(
    mpi: &Mpi,
    library: Option<&Path>,
    ranks: u32,
    alone: bool,
    variables: &[(&str, &str)],
) -> Finished {
    let data = Directory::new();
    let program = compile("visibility.c", mpi);
    let job = Job::new(&program).ranks(ranks).argument(data.path().join("data"));
    let job = if alone { job.argument("alone") } else { job };
    let set = |job: Job, (name, value): &(&str, &str)| job.variable(name, value);
    variables.iter().fold(job, set).preload(library).run()
}

/// Two to seven ranks; all of these numbers in long runs.
fn numbers_of_ranks() -> Vec<u32> {
    if factor() > 1 { (2..=7).collect() } else { vec![2, 3, 7] }
}

#[test]
fn where_requests_are_quick_everybody_sees_at_once_what_a_rank_has_written() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        for ranks in numbers_of_ranks() {
            let finished = run(&mpi, Some(&library), ranks, false, &[("AGGIO_DEFER", "*")]);
            assert!(finished.succeeded(), "{} {ranks}: {}", mpi.name, finished.report());
        }
    }
}

#[test]
fn ranks_see_what_waits_on_others_though_it_is_not_synchronised() {
    let Some(library) = library() else { return };
    let always = "*:aggio_tune=defer_always=true";
    let small = "*:aggio_tune=defer_always=true defer_buffer=500 defer_spill=0";
    for mpi in installed() {
        for ranks in numbers_of_ranks() {
            for hints in [always, small] {
                let variables =
                    [("AGGIO_DEFER", "*"), ("AGGIO_HINTS", hints), ("AGGIO_STAGE", "none")];
                let finished = run(&mpi, Some(&library), ranks, true, &variables);
                let what = format!("{} {ranks} {hints}", mpi.name);
                assert!(finished.succeeded(), "{what}: {}", finished.report());
            }
        }
    }
}

/// Also to system calls, in the job or in another program that has the library.
#[test]
fn everybody_sees_at_once_what_is_staged() {
    let Some(library) = library() else { return };
    let always = "*:aggio_tune=defer_always=true";
    let idle = "*:aggio_tune=defer_always=true:aggio_defer_drain=idle";
    for (row, ranks) in numbers_of_ranks().into_iter().enumerate() {
        for mpi in installed_for(row) {
            for (hints, in_memory) in [(always, false), (idle, false), (always, true)] {
                let stages = Directory::new();
                let directory = stages.path().to_str().expect("UTF-8");
                let place = if in_memory { "memory" } else { directory };
                let variables =
                    [("AGGIO_DEFER", "*"), ("AGGIO_HINTS", hints), ("AGGIO_STAGE", place)];
                let finished = run(&mpi, Some(&library), ranks, false, &variables);
                let what = format!("{} {ranks} {hints} {place}", mpi.name);
                assert!(finished.succeeded(), "{what}: {}", finished.report());
                assert_eq!(names_in(stages.path()), [""; 0], "{what}: a stage is left");
            }
        }
    }
}

//! Programs that check themselves, one a corner of the MPI-IO chapter, on both MPIs under the library.
//!
//! Each prints `ok` if nothing was wrong. `native_battery` runs them without the library: what fails there
//! is what today's implementations get wrong.

use aggio_tests::{Directory, Job, Mpi, compile, installed, library};
use std::path::Path;
use std::time::Duration;

/// Source file and number of ranks.
const PROGRAMS: &[(&str, u32)] = &[
    ("atomic.c", 4),
    ("cplusplus.cc", 2),
    ("ends.c", 4),
    ("errors.c", 4),
    ("explicit.c", 4),
    ("gaps.c", 4),
    ("handlers.c", 2),
    ("holes.c", 2),
    ("individual.c", 4),
    ("largecount.c", 3),
    ("manage.c", 4),
    ("modes.c", 4),
    ("mpif.f", 4),
    ("progress.c", 4),
    ("representations.c", 3),
    ("requests.c", 4),
    ("sessions.c", 3),
    ("shared.c", 4),
    ("split.c", 4),
    ("threads.c", 2),
    ("types.c", 2),
    ("unclosed.c", 3),
    ("usempi.f90", 3),
    ("usempif08.f90", 4),
    ("views.c", 4),
];

/// What went wrong, in full; `None` if the program was content.
fn failure(source: &str, ranks: u32, mpi: &Mpi, library: Option<&Path>) -> Option<String> {
    let data = Directory::new();
    let job = Job::new(&compile(source, mpi)).ranks(ranks).argument(data.path().join("data"));
    let finished = job.preload(library).limit(Duration::from_secs(120)).run();
    let content = finished.stdout.lines().any(|line| line == "ok" || line.starts_with("ok:"));
    (!content || !finished.succeeded())
        .then(|| format!("{source} with {ranks} ranks on {}: {}", mpi.name, finished.report()))
}

fn passes(source: &str) {
    let Some(library) = library() else { return };
    let known = PROGRAMS.iter().find(|(name, _)| *name == source);
    let (_, most) = known.unwrap_or_else(|| panic!("{source} is not in the table"));
    for mpi in installed() {
        for ranks in [*most, 1] {
            if let Some(report) = failure(source, ranks, &mpi, Some(&library)) {
                panic!("{report}");
            }
        }
    }
}

macro_rules! battery {
    ($($name:ident: $source:literal;)*) => {
        $(#[test] fn $name() { passes($source); })*

        #[test]
        fn every_program_of_the_table_has_a_test() {
            let tested = [$($source),*];
            let missing: Vec<_> = PROGRAMS.iter().filter(|(name, _)| !tested.contains(name)).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    };
}

battery! {
    atomic_mode_keeps_overlapping_writes_whole: "atomic.c";
    programs_in_cplusplus_work: "cplusplus.cc";
    counts_and_pointers_are_exact_at_the_end_of_the_file: "ends.c";
    wrong_arguments_get_their_class_and_nobody_waits: "errors.c";
    explicit_offsets_transfer_what_they_say: "explicit.c";
    a_concurrent_writer_in_the_gaps_loses_nothing: "gaps.c";
    error_handlers_are_called_as_the_standard_says: "handlers.c";
    independent_strided_writes_leave_zeros_in_the_gaps: "holes.c";
    individual_pointers_move_by_what_was_asked_for: "individual.c";
    large_count_functions_work: "largecount.c";
    files_tell_the_truth_about_themselves: "manage.c";
    every_access_mode_refuses_what_it_must: "modes.c";
    the_fixed_form_fortran_binding_works: "mpif.f";
    a_blocked_rank_lets_pending_operations_proceed: "progress.c";
    data_representations_have_the_bytes_the_standard_gives_them: "representations.c";
    many_nonblocking_operations_may_be_outstanding: "requests.c";
    sessions_without_a_world_work: "sessions.c";
    the_shared_pointer_gives_every_record_once: "shared.c";
    split_collectives_of_every_kind_work: "split.c";
    threads_may_use_one_file_at_once: "threads.c";
    every_datatype_is_seen_as_mpi_pack_sees_it: "types.c";
    a_file_left_open_survives_finalize: "unclosed.c";
    the_fortran_90_binding_works: "usempi.f90";
    the_fortran_2008_binding_works: "usempif08.f90";
    views_of_every_constructor_show_the_right_bytes: "views.c";
}

/// A table for people: `cargo test -p aggio-tests --test battery native -- --ignored --nocapture`.
#[test]
#[ignore = "shows what the MPI libraries themselves get wrong"]
fn native_battery() {
    let mpis = installed();
    for (source, ranks) in PROGRAMS {
        let row = mpis.iter().map(|mpi| match failure(source, *ranks, mpi, None) {
            None => format!("{} pass", mpi.name),
            Some(_) => format!("{} FAIL", mpi.name),
        });
        println!("{source:20} {}", row.collect::<Vec<_>>().join("  "));
    }
}

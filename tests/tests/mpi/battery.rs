//! Programs that check themselves, one a corner of the MPI-IO chapter, on both MPIs under the
//! library.
//!
//! Each prints `ok` if nothing was wrong. The example `native_battery` runs them without the
//! library: failures there are errors of today's implementations.

use aggio_tests::battery::{PROGRAMS, failure};
use aggio_tests::{installed, installed_for, library};

fn passes(source: &str) {
    let Some(library) = library() else { return };
    let row = PROGRAMS.iter().position(|(name, _)| *name == source);
    let row = row.unwrap_or_else(|| panic!("{source} is not in the table"));
    let many = installed().into_iter().map(|mpi| (mpi, PROGRAMS[row].1));
    let alone = installed_for(row).into_iter().map(|mpi| (mpi, 1));
    for (mpi, ranks) in many.chain(alone) {
        if let Some(report) = failure(source, ranks, &mpi, Some(&library)) {
            panic!("{report}");
        }
    }
}

macro_rules! battery {
    ($($name:ident: $source:literal;)*) => {
        $(#[test] fn $name() { passes($source); })*

        #[test]
        fn every_program_of_the_table_has_a_test() {
            let tested = [$($source),*];
            let known = PROGRAMS.iter().map(|(name, _)| name);
            let missing: Vec<_> = known.filter(|name| !tested.contains(name)).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    };
}

battery! {
    atomic_mode_keeps_overlapping_writes_whole: "atomic.c";
    files_and_communicators_live_apart: "communicators.c";
    programs_in_cplusplus_work: "cplusplus.cc";
    error_handlers_of_the_cplusplus_bindings_are_called: "cxxhandlers.cc";
    ranks_may_need_the_file_late_or_never: "deferred.c";
    counts_and_pointers_are_exact_at_the_end_of_the_file: "ends.c";
    wrong_arguments_get_their_class_and_nobody_waits: "errors.c";
    explicit_offsets_transfer_what_they_say: "explicit.c";
    operations_whose_requests_are_freed_end_before_the_close: "freed.c";
    a_concurrent_writer_in_the_gaps_loses_nothing: "gaps.c";
    error_handlers_are_called_as_the_standard_says: "handlers.c";
    independent_strided_writes_leave_zeros_in_the_gaps: "holes.c";
    individual_pointers_move_by_what_was_asked_for: "individual.c";
    large_count_functions_work: "largecount.c";
    files_tell_the_truth_about_themselves: "manage.c";
    every_access_mode_refuses_what_it_must: "modes.c";
    the_fixed_form_fortran_binding_works: "mpif.f";
    pending_operations_and_collective_calls_may_come_in_different_orders: "orders.c";
    nonblocking_operations_proceed_while_the_program_computes: "overlap.c";
    a_blocked_rank_lets_pending_operations_proceed: "progress.c";
    data_representations_have_the_bytes_the_standard_gives_them: "representations.c";
    many_nonblocking_operations_may_be_outstanding: "requests.c";
    a_new_type_is_not_taken_for_the_freed_one_whose_handle_it_has: "reuse.c";
    sessions_without_a_world_work: "sessions.c";
    the_shared_pointer_gives_every_record_once: "shared.c";
    split_collectives_of_every_kind_work: "split.c";
    threads_may_use_one_file_at_once: "threads.c";
    every_datatype_is_seen_as_mpi_pack_sees_it: "types.c";
    a_file_left_open_survives_finalize: "unclosed.c";
    a_file_can_be_closed_inside_finalize: "closed_at_end.c";
    the_fortran_90_binding_works: "usempi.f90";
    the_fortran_2008_binding_works: "usempif08.f90";
    views_of_every_constructor_show_the_right_bytes: "views.c";
}

//! The library file itself: its dependencies and its exports.

use aggio_tests::library;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

fn output_of(program: &str, arguments: &[&str], library: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(library).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error} (package binutils)"));
    assert!(output.status.success(), "{program} failed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_library_needs_nothing_but_libc() {
    let Some(library) = library() else { return };
    // Each other one would be looked for at the start of every program that inherits LD_PRELOAD.
    let allowed = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];
    let dynamic = output_of("readelf", &["-d"], &library);
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert!(needed.contains(&"libc.so.6"), "{needed:?}");
    for name in needed {
        assert!(allowed.contains(&name) || name.starts_with("ld-linux"), "NEEDED {name}");
    }
}

/// MPI-4.1 section 14: everything that takes or makes a file, each with its `P` twin.
const FUNCTIONS: &str = "
    c2f f2c open close delete set_size preallocate get_size get_group get_amode set_info get_info
    set_view get_view read_at read_at_all write_at write_at_all iread_at iwrite_at iread_at_all
    iwrite_at_all read read_all write write_all iread iwrite iread_all iwrite_all seek get_position
    get_byte_offset read_shared write_shared iread_shared iwrite_shared read_ordered write_ordered
    seek_shared get_position_shared read_at_all_begin read_at_all_end write_at_all_begin
    write_at_all_end read_all_begin read_all_end write_all_begin write_all_end read_ordered_begin
    read_ordered_end write_ordered_begin write_ordered_end get_type_extent set_atomicity
    get_atomicity sync create_errhandler set_errhandler get_errhandler call_errhandler";

/// Those that exist with large counts too (MPI-4.1 section 14.4 to 14.5).
const LARGE: &str = "
    get_type_extent iread iread_all iread_at iread_at_all iread_shared iwrite iwrite_all iwrite_at
    iwrite_at_all iwrite_shared read read_all read_at read_at_all read_ordered read_shared write
    write_all write_at write_at_all write_ordered write_shared read_all_begin read_at_all_begin
    read_ordered_begin write_all_begin write_at_all_begin write_ordered_begin";

/// Without them no file is served right: progress, completion, the end of a program.
const OTHERS: &str = "
    Register_datarep Register_datarep_c File_toint File_fromint Errhandler_free Init Init_thread
    Finalize Abort Session_finalize Wait Waitall Waitany Waitsome Test Testall Testany
    Testsome Request_free Request_get_status";

/// Fortran layers that reach no C function of ours when a handler is made.
const FORTRAN: &str = "
    mpi_file_create_errhandler mpi_file_create_errhandler_ mpi_file_create_errhandler__
    MPI_FILE_CREATE_ERRHANDLER ompi_file_create_errhandler_f";

fn expected() -> BTreeSet<String> {
    let files = FUNCTIONS.split_whitespace().map(|name| format!("MPI_File_{name}"));
    let large = LARGE.split_whitespace().map(|name| format!("MPI_File_{name}_c"));
    let others = OTHERS.split_whitespace().map(|name| format!("MPI_{name}"));
    let both = files.chain(large).chain(others).flat_map(|name| [format!("P{name}"), name]);
    both.chain(FORTRAN.split_whitespace().map(str::to_owned)).collect()
}

#[test]
fn every_function_of_the_chapter_is_exported_under_both_names() {
    let Some(library) = library() else { return };
    let symbols = output_of("nm", &["-D", "--defined-only"], &library);
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .collect();
    let missing: Vec<_> = expected().difference(&exported).cloned().collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}

/// The functions of the C library that the library stands before, by its own account.
fn of_the_c_library(library: &Path) -> BTreeSet<String> {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library does nothing when it is loaded; the function gives a constant string.
    let names = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{} cannot be loaded", library.display());
        let symbol = libc::dlsym(handle, c"aggio_interposed_posix".as_ptr());
        assert!(!symbol.is_null(), "no aggio_interposed_posix");
        let names: extern "C" fn() -> *const c_char = std::mem::transmute(symbol);
        CStr::from_ptr(names())
    };
    names.to_str().unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn nothing_but_mpi_and_the_table_of_the_c_library_is_exported() {
    let Some(library) = library() else { return };
    let table = of_the_c_library(&library);
    assert!(table.contains("write") && table.contains("execl"), "{table:?}");
    let symbols = output_of("nm", &["-D", "--defined-only"], &library);
    let foreign: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| !name.to_lowercase().trim_start_matches('p').starts_with("mpi"))
        .filter(|name| !name.starts_with("ompi_") && !name.starts_with("aggio_"))
        // Members of the namespace of MPI's C++ bindings.
        .filter(|name| !name.starts_with("_ZN3MPI"))
        .filter(|name| !table.contains(*name))
        .collect();
    assert!(foreign.is_empty(), "exported: {foreign:?}");
}

#[test]
fn the_table_of_the_standard_has_its_number_of_functions() {
    assert_eq!(FUNCTIONS.split_whitespace().count(), 61);
    assert_eq!(LARGE.split_whitespace().count(), 29);
}

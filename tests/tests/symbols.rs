//! What the library exports and what it needs.

use aggio_tests::library;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Chapter 14 of MPI-4.1 and the additions of MPI-5, without the prefix `MPI_File_`; written down
/// here a second time so that a row missing from the library's own table is noticed.
const FUNCTIONS: &str = "open close delete set_size preallocate get_size get_group get_amode \
    set_info get_info set_view get_view read_at read_at_all write_at write_at_all iread_at \
    iwrite_at iread_at_all iwrite_at_all read read_all write write_all iread iwrite iread_all \
    iwrite_all seek get_position get_byte_offset read_shared write_shared iread_shared \
    iwrite_shared read_ordered write_ordered seek_shared get_position_shared read_at_all_begin \
    read_at_all_end write_at_all_begin write_at_all_end read_all_begin read_all_end \
    write_all_begin write_all_end read_ordered_begin read_ordered_end write_ordered_begin \
    write_ordered_end get_type_extent set_atomicity get_atomicity sync create_errhandler \
    set_errhandler get_errhandler call_errhandler c2f f2c toint fromint";

/// The functions with a large-count form.
const LARGE: &str = "read_at read_at_all write_at write_at_all iread_at iwrite_at iread_at_all \
    iwrite_at_all read read_all write write_all iread iwrite iread_all iwrite_all read_shared \
    write_shared iread_shared iwrite_shared read_ordered write_ordered read_at_all_begin \
    write_at_all_begin read_all_begin write_all_begin read_ordered_begin write_ordered_begin \
    get_type_extent";

fn names_of_the_chapter() -> BTreeSet<String> {
    let plain = FUNCTIONS.split_whitespace().map(|name| format!("MPI_File_{name}"));
    let large = LARGE.split_whitespace().map(|name| format!("MPI_File_{name}_c"));
    let datarep = ["MPI_Register_datarep".to_owned(), "MPI_Register_datarep_c".to_owned()];
    plain.chain(large).chain(datarep).collect()
}

/// The library's own table.
fn interposed(library: &Path) -> BTreeSet<String> {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library does nothing when it is loaded; the function gives a constant string.
    let names = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{} cannot be loaded", library.display());
        let symbol = libc::dlsym(handle, c"aggio_interposed".as_ptr());
        assert!(!symbol.is_null(), "no aggio_interposed");
        let names: extern "C" fn() -> *const c_char = std::mem::transmute(symbol);
        CStr::from_ptr(names())
    };
    names.to_str().unwrap().lines().map(str::to_owned).collect()
}

fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().expect(program);
    assert!(output.status.success(), "{program} {}", file.display());
    String::from_utf8(output.stdout).unwrap()
}

/// The exported functions whose names begin with `MPI_` or `PMPI_`.
fn exported(library: &Path) -> BTreeSet<String> {
    let symbols = output("nm", &["-D", "--defined-only"], library);
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    names
        .filter(|name| name.starts_with("MPI_") || name.starts_with("PMPI_"))
        .map(str::to_owned)
        .collect()
}

/// Names of Open MPI's and MPICH's Fortran layers that look like MPI's.
fn is_fortran(name: &str) -> bool {
    name.ends_with("_f") || name.ends_with("_f08") || name.contains("MPI_FILE_")
}

#[test]
fn the_table_holds_every_function_of_the_chapter() {
    let Some(library) = library() else { return };
    let table = interposed(&library);
    let missing: Vec<_> = names_of_the_chapter().difference(&table).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(names_of_the_chapter().len(), 62 + 30 + 2);
}

#[test]
fn exactly_the_functions_of_the_table_are_exported_each_under_both_names() {
    let Some(library) = library() else { return };
    let table = interposed(&library);
    let both = table.iter().flat_map(|name| [name.clone(), format!("P{name}")]);
    let expected: BTreeSet<String> = both.collect();
    let found: BTreeSet<String> =
        exported(&library).into_iter().filter(|name| !is_fortran(name)).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let unknown: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}

#[test]
fn every_file_function_of_the_installed_libraries_is_interposed() {
    let Some(library) = library() else { return };
    let table = interposed(&library);
    for name in ["libmpi.so.40", "libmpich.so.12"] {
        let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        if !path.exists() {
            eprintln!("skipped: {name} is not installed");
            continue;
        }
        let known =
            |name: &String| name.starts_with("MPI_File_") || name.starts_with("MPI_Register");
        let all = exported(&path).into_iter().filter(known).filter(|name| !is_fortran(name));
        let missing: Vec<_> = all.filter(|name| !table.contains(name)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
fn the_library_needs_the_c_library_alone() {
    let Some(library) = library() else { return };
    let dynamic = output("readelf", &["-d"], &library);
    for line in dynamic.lines().filter(|line| line.contains("NEEDED")) {
        let known = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so", "libdl.so", "libpthread.so"];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
    let undefined = output("nm", &["-D", "--undefined-only"], &library);
    assert!(!undefined.contains("MPI_"), "{undefined}");
}

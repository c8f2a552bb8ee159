//! The library's table of interposed functions against the exported ones, here and by MPI itself.

use aggio_tests::{library, skip};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

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

/// The exported functions with names that begin with `MPI_` or `PMPI_`.
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
        let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let path = Path::new(&folder).join(name);
        if !path.exists() {
            skip(&format!("{name} is not installed (tests/setup.sh check)"));
            continue;
        }
        let known =
            |name: &String| name.starts_with("MPI_File_") || name.starts_with("MPI_Register");
        let all = exported(&path).into_iter().filter(known).filter(|name| !is_fortran(name));
        let missing: Vec<_> = all.filter(|name| !table.contains(name)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

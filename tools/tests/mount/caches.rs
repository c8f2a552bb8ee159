//! Cached data of files is dropped where another computer may have changed them, and nowhere else.

use crate::mounted::Mount;
use aggio_tests::{Directory, calls_on, compile, installed, library};
use std::path::Path;
use std::process::Command;

/// How often pages were dropped, of all these calls.
fn drops<'a>(calls: impl IntoIterator<Item = &'a str>) -> usize {
    calls.into_iter().filter(|call| call.contains("POSIX_FADV_DONTNEED")).count()
}

/// How often two ranks drop the cached data of `file`, which they open and synchronise four times.
fn dropped_by_ranks(file: &Path, library: &Path) -> Vec<usize> {
    let of = |mpi: aggio_tests::Mpi| {
        let (program, kinds) = (compile("stale.c", &mpi), "fadvise64");
        let (run, calls) = calls_on(file, kinds, &program, &["2", "sync"], (2, library), &[]);
        assert!(run.succeeded() && run.stdout.contains("ok"), "{}: {}", mpi.name, run.report());
        drops(calls.iter().map(String::as_str))
    };
    installed().into_iter().map(of).collect()
}

/// How often a program drops the cached data of `file` when it opens it.
fn dropped_by_program(file: &Path, library: &Path, setting: &str) -> usize {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", "trace=fadvise64", "-E"])
        .arg(format!("LD_PRELOAD={}", library.display()))
        .args(["-E", setting, "head", "-c", "3"])
        .arg(file)
        .output()
        .expect("strace (tests/setup.sh)");
    assert_eq!(output.stdout, b"abc", "{}", String::from_utf8_lossy(&output.stderr));
    drops(String::from_utf8_lossy(&output.stderr).lines())
}

#[test]
fn ranks_drop_what_is_kept_of_a_file_of_fuse_at_open_and_sync_and_of_no_local_file() {
    let Some(library) = library() else { return };
    let Some(mount) = Mount::start(&["--rw", "--no-passthrough"]) else { return };
    for drops in dropped_by_ranks(&mount.path("file"), &library) {
        assert!(drops >= 5, "{drops} times; one open and four times MPI_File_sync");
    }
    for local in [Directory::new(), Directory::below(Path::new("/dev/shm"))] {
        let found = dropped_by_ranks(&local.path().join("file"), &library);
        assert!(found.iter().all(|drops| *drops == 0), "{}: {found:?}", local.path().display());
    }
    mount.end();
}

#[test]
fn programs_drop_what_is_kept_of_a_file_of_fuse_when_they_open_it_and_of_no_local_file() {
    let Some(library) = library() else { return };
    let Some(mount) = Mount::start(&["--rw", "--no-passthrough"]) else { return };
    let local = Directory::below(Path::new("/dev/shm"));
    for folder in [mount.path(""), local.path().to_path_buf()] {
        std::fs::write(folder.join("file"), "abc").unwrap();
    }
    crate::mounted::container(&local.path().join("blob"), b"abc", 1);
    for setting in ["AGGIO_POSIX=**:close", "AGGIO_POSIX=**:posix"] {
        assert!(dropped_by_program(&mount.path("file"), &library, setting) >= 1, "{setting}");
    }
    for (name, setting) in [("file", "AGGIO_POSIX=**:close"), ("blob", "AGGIO_BLOB=**")] {
        assert_eq!(dropped_by_program(&local.path().join(name), &library, setting), 0, "{setting}");
    }
    mount.end();
}

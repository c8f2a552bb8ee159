//! Reads, writes, mappings, truncations and holes in random order: the file has the written bytes
//! after every operation. `tools/tests/mount/operations.rs` does the same below a mount point.

use aggio_tests::{Directory, fsx, library};

#[test]
fn a_file_of_a_rule_holds_what_was_written_after_every_operation() {
    let Some(library) = library() else { return };
    for mode in ["close", "causal", "posix"] {
        for run in fsx::runs(15_000) {
            let directory = Directory::new();
            let spool = directory.path().join("spool");
            std::fs::create_dir(&spool).unwrap();
            fsx::run("plain", &directory.path().join("file"), run, |command| {
                command.env("LD_PRELOAD", &library).env("AGGIO_SPOOL", &spool);
                command.env("AGGIO_POSIX", format!("{}/:{mode}", directory.path().display()));
            });
            assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "{mode}: a spool is left");
        }
    }
}

#[test]
fn a_container_holds_what_was_written_after_every_operation() {
    let Some(library) = library() else { return };
    for mode in ["", ":close", ":causal"] {
        for run in fsx::runs(8_000) {
            let directory = Directory::new();
            let (file, spool) = (directory.path().join("file"), directory.path().join("spool"));
            std::fs::create_dir(&spool).unwrap();
            fsx::run("container", &file, run, |command| {
                command.env("LD_PRELOAD", &library).env("AGGIO_SPOOL", &spool);
                command.env("AGGIO_BLOB", format!("{}{mode}", file.display()));
            });
            assert!(agg_core::blob::is_container(&file));
            assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "{mode}: a spool is left");
        }
    }
}

//! Programs that try everything on one file, on a container below a mount point: nothing differs
//! from an ordinary file.

use crate::mounted::Mount;
use aggio_tests::{compile_plain, fsx};
use std::process::Command;

const CONTAINERS: [&str; 2] = ["--rw", "--new-files=container"];

#[test]
fn a_container_holds_what_was_written_after_every_operation() {
    for run in fsx::runs(15_000) {
        let Some(mount) = Mount::start(&CONTAINERS) else { return };
        fsx::run("mount", &mount.path("file"), run, |_| {});
        assert!(agg_core::blob::is_container(&mount.backing("file")));
        mount.end();
    }
}

#[test]
fn so_does_a_plain_file_whether_the_kernel_reads_it_by_itself_or_not() {
    for option in ["--new-files=plain", "--no-passthrough"] {
        for run in fsx::runs(10_000) {
            let Some(mount) = Mount::start(&["--rw", option]) else { return };
            fsx::run("mount", &mount.path("file"), run, |_| {});
            mount.end();
        }
    }
}

#[test]
fn no_way_around_write_sees_or_leaves_anything_else_than_on_a_file() {
    let Some(mount) = Mount::start(&CONTAINERS) else { return };
    let helper = compile_plain("helper.c", &["-static"]);
    let mut command = Command::new(compile_plain("leaks.c", &[]));
    let run = command.args([&mount.path("file"), &helper, &"one name".into()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "ok\n");
    assert!(agg_core::blob::is_container(&mount.backing("file")));
}

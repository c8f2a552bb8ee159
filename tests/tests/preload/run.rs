//! `aggio run` before the launchers of real MPIs.

use aggio_tests::{Directory, compile, installed, library};
use std::process::Command;

#[test]
fn ranks_of_a_job_that_was_started_by_run_are_served() {
    let Some(library) = library() else { return };
    let aggio = library.with_file_name("aggio");
    for mpi in installed() {
        let (data, program) = (Directory::new(), compile("explicit.c", &mpi));
        let mut command = Command::new(&aggio);
        command.arg("run").arg("--library").arg(&library).arg("--").arg(mpi.mpirun());
        command.args(["-n", "2"]).arg(&program.path).arg(data.path().join("data"));
        command.envs(mpi.environment().iter().copied()).env("AGGIO_REPORT", "json");
        // Settings of the tests themselves; the library would call them unknown.
        for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY"] {
            command.env_remove(name);
        }
        let output = command.env("TMPDIR", data.path()).output().expect("aggio starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && printed.contains("ok"), "{}: {printed}{told}", mpi.name);
        assert!(told.contains("aggio_report"), "{}: nobody was served: {told}", mpi.name);
    }
}

//! System calls of all ranks of a job, as `strace` sees them.

use crate::{Directory, Finished, Job, Program};
use std::path::Path;

/// Runs `program`, which gets `file` and then `arguments`, on so many ranks with `library`
/// preloaded: how it ended, and the calls of `kinds`, which are names with commas between, that
/// name `file` or a descriptor of it.
///
/// # Panics
///
/// If `mpirun` cannot be started.
pub fn calls_on(
    file: &Path,
    kinds: &str,
    program: &Program,
    arguments: &[&str],
    (ranks, library): (u32, &Path),
    variables: &[(&str, &str)],
) -> (Finished, Vec<String>) {
    let (finished, processes) =
        calls_of_each(file, kinds, program, arguments, (ranks, library), variables, &[]);
    (finished, processes.concat())
}

/// As [`calls_on`], by process; strace gets `options`, too.
///
/// # Panics
///
/// If `mpirun` cannot be started.
pub fn calls_of_each(
    file: &Path,
    kinds: &str,
    program: &Program,
    arguments: &[&str],
    (ranks, library): (u32, &Path),
    variables: &[(&str, &str)],
    options: &[&str],
) -> (Finished, Vec<Vec<String>>) {
    let logs = Directory::new();
    let strace = Program { path: "/usr/bin/strace".into(), mpi: program.mpi.clone() };
    let preload = format!("LD_PRELOAD={}", library.display());
    let kinds = format!("trace={kinds}");
    let mut job = Job::new(&strace).ranks(ranks);
    for (name, value) in variables {
        job = job.variable(name, value);
    }
    let own = ["-f", "-ff", "-qq", "-y", "-e", &kinds, "-E", &preload];
    for argument in own.iter().chain(options).chain(&["-o"]) {
        job = job.argument(argument);
    }
    job = job.argument(logs.path().join("trace")).argument(&program.path).argument(file);
    let finished = arguments.iter().fold(job, |job, argument| job.argument(argument)).run();
    let traces = std::fs::read_dir(logs.path()).expect("the folder is there").flatten();
    let traces = traces.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default());
    let name = file.display().to_string();
    let of_file = |trace: String| -> Vec<String> {
        trace.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect()
    };
    (finished, traces.map(of_file).collect())
}

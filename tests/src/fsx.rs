//! Random operations on one file (`tests/programs/fsx.c`); the program checks their results.

use crate::{compile_plain, factor};
use std::path::Path;
use std::process::Command;

/// Operations of a run, where there are several.
const RUN: usize = 100_000;

/// Seeds and numbers of operations of the runs: `few` operations in one, or a hundred thousand in
/// each of as many runs as `AGGIO_TEST_FACTOR` says.
pub fn runs(few: usize) -> Vec<(usize, usize)> {
    match factor() {
        0 | 1 => vec![(1, few)],
        more => (1..=more).map(|seed| (seed, RUN)).collect(),
    }
}

/// Runs the operations on `file`, of a kind that the program supports; `prepare` adds the settings
/// of the process.
///
/// # Panics
///
/// If anything differs; the message has the seed and the operations before.
pub fn run(
    kind: &str,
    file: &Path,
    (seed, operations): (usize, usize),
    prepare: impl FnOnce(&mut Command),
) {
    let mut command = Command::new(compile_plain("fsx.c", &[]));
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX", "AGGIO_BLOB"] {
        command.env_remove(name);
    }
    command.args([seed.to_string(), operations.to_string()]).arg(file).arg(kind);
    prepare(&mut command);
    let run = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{kind}: {} {said}{complained}", run.status);
    let wanted = format!("{operations} operations");
    assert!(said.starts_with(&wanted) && complained.is_empty(), "{kind}: {said}{complained}");
    println!("{kind}, seed {seed}: {said}");
}

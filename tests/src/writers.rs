//! The records that `programs/ends_of_writers.c` writes, and that program killed.

use std::io::Read;
use std::process::{Command, Stdio};

/// The bytes of so many of its records.
pub fn records(count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| format!("{index:015}\n").into_bytes()).collect()
}

/// Lets a writer, with the file as its last argument, write so many records, and kills it without
/// warning.
///
/// # Panics
///
/// If it does not say that it has written them all.
pub fn kill_when_written(command: &mut Command, count: usize) {
    command.args(["wait", &count.to_string()]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the writer starts");
    let mut word = [0; 7];
    let said = child.stdout.take().expect("a pipe").read_exact(&mut word);
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    said.expect("it wrote all its records");
}

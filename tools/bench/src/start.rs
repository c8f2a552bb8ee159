//! What the library costs a process that has no business with it: milliseconds at start.

use crate::results::median;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Programs that find the preload variable in their environment though they do no MPI-IO.
const PROGRAMS: &[&[&str]] =
    &[&["true"], &["ls", "/"], &["bash", "-c", ":"], &["git", "--version"], &["python3", "-c", ""]];

/// Starts of each program, natively and preloaded in alternation.
const STARTS: usize = 201;

fn milliseconds(command: &[&str], library: Option<&Path>) -> Result<f64, String> {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(library) = library {
        process.env("LD_PRELOAD", library);
    }
    let start = Instant::now();
    let status = process.status().map_err(|why| format!("{}: {why}", command[0]))?;
    let elapsed = start.elapsed().as_secs_f64() * 1000.0;
    if status.success() { Ok(elapsed) } else { Err(format!("{}: {status}", command[0])) }
}

/// Measures all programs; the result is a Markdown table.
pub(crate) fn measure(library: &Path) -> Result<String, String> {
    let mut text = format!(
        "# Start of processes without MPI\n\nMedians of {STARTS} alternating starts, in milliseconds.\n\n\
         | program | native | preloaded | added |\n|---|---|---|---|\n"
    );
    for program in PROGRAMS {
        let (mut native, mut preloaded) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            native.push(milliseconds(program, None)?);
            preloaded.push(milliseconds(program, Some(library))?);
        }
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let (native, preloaded) = (middle(&native), middle(&preloaded));
        let added = preloaded - native;
        let _ = writeln!(
            text,
            "| `{}` | {native:.2} | {preloaded:.2} | {added:.2} |",
            program.join(" ")
        );
    }
    Ok(text)
}

//! The cost of the library for a process that does not use it: milliseconds at start.

use crate::results::median;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Programs that find the preload variable in their environment though they do no MPI-IO.
const PROGRAMS: &[&[&str]] =
    &[&["true"], &["ls", "/"], &["bash", "-c", ":"], &["git", "--version"], &["python3", "-c", ""]];

/// The program itself, not a script of its name that starts it: version managers put such ones on
/// the `PATH`.
fn executable(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found =
        std::env::split_paths(&path).filter_map(|folder| folder.join(name).canonicalize().ok());
    let is_program = |file: &PathBuf| {
        let mut magic = [0; 4];
        let read = File::open(file).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == *b"\x7fELF"
    };
    let missing = || format!("{name}: no executable of this name on the PATH, scripts excepted");
    found.find(is_program).ok_or_else(missing)
}

/// Starts of each program, natively and preloaded in alternation.
const STARTS: usize = 201;

fn milliseconds(command: &[&str], library: Option<&Path>) -> Result<f64, String> {
    let mut process = Command::new(executable(command[0])?);
    process.arg0(command[0]).args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null());
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
        "# Start of processes without MPI\n\nMedians of {STARTS} alternating starts, in \
            milliseconds.\n\n\
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

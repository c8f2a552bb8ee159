//! `aggio`: explains the hints and settings that `libaggio.so` obeys, and simulates its planner.

#![forbid(unsafe_code)]

mod hints;
mod man;
mod markdown;
mod simulate;
mod switches;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Hints, settings and simulation of aggio, the MPI-IO that LD_PRELOAD=libaggio.so puts under any MPI program.
#[derive(Parser)]
#[command(name = "aggio", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every hint: its value here, where that comes from, and what it means
    Hints(hints::Arguments),
    /// Every environment variable that aggio looks at, and its value here
    Env(switches::Arguments),
    /// What collective calls of many ranks would cost on a machine that is described
    Simulate(simulate::Arguments),
}

/// What a command has to say.
struct Answer {
    text: String,
    /// What is wrong with the environment, for standard error.
    findings: Vec<String>,
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().command {
        Command::Hints(arguments) => arguments.run(),
        Command::Env(arguments) => arguments.run(),
        Command::Simulate(arguments) => arguments.run(),
    };
    for finding in &answer.findings {
        // Without standard error there is nobody to tell.
        let _ = writeln!(io::stderr(), "aggio: {finding}");
    }
    match io::stdout().write_all(answer.text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(5),
        _ if answer.findings.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

/// Lines of a table: columns padded to the widest cell, the last one as it is.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

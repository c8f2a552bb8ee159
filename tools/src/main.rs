//! `aggio`: mounts and manages containers, explains the hints and settings that `libaggio.so`
//! obeys, and simulates its planner.

#![forbid(unsafe_code)]

mod agent;
mod containers;
mod couple;
mod doctor;
mod document;
mod elf;
mod exit;
mod hints;
mod library;
mod man;
mod markdown;
mod mount;
mod numbers;
mod progress;
mod run;
mod simulate;
mod switches;
mod umount;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Manage files, mounts and settings of aggio, which LD_PRELOAD=libaggio.so loads into any program.
#[derive(Parser)]
#[command(name = "aggio", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show every hint: its value here, where the value comes from, and what it does
    Hints(hints::Arguments),
    /// Show every environment variable of aggio, and its value here
    Env(switches::Arguments),
    /// Predict what collective calls of many ranks cost on a machine that you describe
    Simulate(simulate::Arguments),
    /// Show the containers, sets of netCDF files and coupled files of a directory as ordinary files
    Mount(mount::Arguments),
    /// Unmount, even if the process of the mount has died
    Umount(umount::Arguments),
    /// List a directory, with containers and sets of netCDF files as files
    Ls(containers::ls::Arguments),
    /// Describe containers, sets of netCDF files, and files
    Stat(containers::stat::Arguments),
    /// Write the bytes of containers, sets of netCDF files, and files to standard output
    Cat(containers::cat::Arguments),
    /// Make an ordinary file, or another set, from a container or a set of netCDF files
    Merge(containers::merge::Arguments),
    /// Compare the contents of two files, containers or sets
    Verify(containers::verify::Arguments),
    /// Make a container from an ordinary file
    Split(containers::split::Arguments),
    /// Check containers, and repair them
    Fsck(containers::fsck::Arguments),
    /// Seal a container that no process writes, and describe its parts
    Index(containers::index::Arguments),
    /// Complete the work of killed processes
    Recover(containers::recover::Arguments),
    /// Show the files that programs exchange in memory, and who writes, reads and waits
    Couple(couple::Arguments),
    /// Serve programs that exchange files in memory, until nothing is left to do
    Agent(agent::Arguments),
    /// Run a program, or mpirun, mpiexec, srun or flux, with the library preloaded
    Run(run::Arguments),
    /// Say what works here, what does not, and what helps
    Doctor(doctor::Arguments),
    /// Write completions for a shell
    Completions(document::Completions),
    /// The manual page of a command
    #[command(hide = true)]
    Manual(document::Manual),
}

/// The output of a command.
#[derive(Default)]
struct Answer {
    text: String,
    /// Errors, for standard error.
    findings: Vec<String>,
    /// The exit status, if it is not the one that findings make.
    status: Option<u8>,
}

impl Answer {
    fn failed(finding: String) -> Self {
        Answer { findings: vec![finding], ..Answer::default() }
    }
}

impl Command {
    fn run(self) -> Answer {
        match self {
            Command::Hints(arguments) => arguments.run(),
            Command::Env(arguments) => arguments.run(),
            Command::Simulate(arguments) => arguments.run(),
            Command::Mount(arguments) => arguments.run(),
            Command::Umount(arguments) => arguments.run(),
            Command::Ls(arguments) => arguments.run(),
            Command::Stat(arguments) => arguments.run(),
            Command::Cat(arguments) => arguments.run(),
            Command::Merge(arguments) => arguments.run(),
            Command::Verify(arguments) => arguments.run(),
            Command::Split(arguments) => arguments.run(),
            Command::Fsck(arguments) => arguments.run(),
            Command::Index(arguments) => arguments.run(),
            Command::Recover(arguments) => arguments.run(),
            Command::Couple(arguments) => arguments.run(),
            Command::Agent(arguments) => arguments.run(),
            Command::Run(arguments) => arguments.run(),
            Command::Doctor(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.run(),
            Command::Manual(arguments) => arguments.run(),
        }
    }
}

fn main() -> ExitCode {
    let answer = Arguments::parse().command.run();
    for finding in &answer.findings {
        // Without standard error there is no place for the message.
        let _ = writeln!(io::stderr(), "aggio: {finding}");
    }
    let usual = if answer.findings.is_empty() { exit::DONE } else { exit::FAILED };
    match io::stdout().write_all(answer.text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(exit::UNWRITTEN),
        _ => ExitCode::from(answer.status.unwrap_or(usual)),
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

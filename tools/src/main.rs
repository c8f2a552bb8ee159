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

/// Containers, mounts, hints, settings and simulation of aggio, which LD_PRELOAD=libaggio.so puts
/// under any program.
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
    /// Show a directory with its containers, sets of netCDF files and coupled files as files
    Mount(mount::Arguments),
    /// End a mount, also one whose process is gone
    Umount(umount::Arguments),
    /// List a directory; containers and sets of netCDF files are files in it
    Ls(containers::ls::Arguments),
    /// What is known about containers, sets of netCDF files, and files
    Stat(containers::stat::Arguments),
    /// Write the bytes of containers, sets of netCDF files, and files to standard output
    Cat(containers::cat::Arguments),
    /// Make an ordinary file, or another set, of a container or of a set of netCDF files
    Merge(containers::merge::Arguments),
    /// Compare what two files, containers or sets hold
    Verify(containers::verify::Arguments),
    /// Make a container of an ordinary file
    Split(containers::split::Arguments),
    /// Check containers, and repair them
    Fsck(containers::fsck::Arguments),
    /// Seal a container that nobody writes, and tell what it consists of
    Index(containers::index::Arguments),
    /// Finish what killed processes had begun
    Recover(containers::recover::Arguments),
    /// Files that programs exchange in memory: what there is, who writes, reads and waits
    Couple(couple::Arguments),
    /// Serve programs that exchange files in memory, until nothing is left to do
    Agent(agent::Arguments),
    /// Run a program, or mpirun, mpiexec, srun or flux, with the library preloaded
    Run(run::Arguments),
    /// What works here, what does not, and what helps
    Doctor(doctor::Arguments),
    /// Completions for a shell
    Completions(document::Completions),
    /// The manual page of a command
    #[command(hide = true)]
    Manual(document::Manual),
}

/// What a command has to say.
#[derive(Default)]
struct Answer {
    text: String,
    /// What is wrong, for standard error.
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
        // Without standard error there is nobody to tell.
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

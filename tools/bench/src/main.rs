//! `make bench`: the same unmodified MPI program, natively and under aggio, beside the limit.
//!
//! Every round starts one job natively and one with the library preloaded, so that drifts of the
//! machine hit both; a job runs every case once, the limit among them. The tables show medians
//! over the rounds as parts of the limit of the same runs. Losing cases stay in the tables.

mod jobs;
mod matrix;
mod report;
mod start;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures MPI-IO natively and under aggio.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The library to preload.
    #[arg(long)]
    library: PathBuf,
    /// The benchmark program built for Open MPI.
    #[arg(long)]
    openmpi: Option<PathBuf>,
    /// The benchmark program built for MPICH.
    #[arg(long)]
    mpich: Option<PathBuf>,
    /// A directory of each file system to measure, as NAME=DIRECTORY.
    #[arg(long = "on", value_name = "NAME=DIRECTORY", required = true)]
    places: Vec<String>,
    /// Rounds; medians are taken over them.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Ranks of each job.
    #[arg(long, default_value_t = 4)]
    ranks: usize,
    /// Bytes that each case moves, in MiB.
    #[arg(long, default_value_t = 128)]
    mebibytes: usize,
    /// Only contiguous patterns.
    #[arg(long)]
    contiguous: bool,
    /// Where the CSV file, the Markdown table and the plots go.
    #[arg(long, default_value = "docs/benchmarks")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let samples = match matrix::measure(&arguments) {
        Ok(samples) => samples,
        Err(why) => {
            eprintln!("aggio-bench: {why}");
            return ExitCode::FAILURE;
        }
    };
    let written = report::write(&arguments.out, &arguments, &samples)
        .map_err(|why| format!("{}: {why}", arguments.out.display()));
    match written.and_then(|table| Ok(table + "\n" + &write_start(&arguments)?)) {
        Ok(tables) => {
            println!("{tables}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("aggio-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Measures process starts and writes `start.md`.
fn write_start(arguments: &Arguments) -> Result<String, String> {
    let table = start::measure(&arguments.library)?;
    let path = arguments.out.join("start.md");
    std::fs::write(&path, &table).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(table)
}

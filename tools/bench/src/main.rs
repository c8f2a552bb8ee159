//! `make bench`: the same unmodified MPI program under aggio and under each native configuration,
//! beside the limit.
//!
//! ```text
//! places x ranks x rounds x servers  ->  one job each (mpirun, watched)  ->  Results
//!                                    ->  CSV, Markdown, SVG
//! ```
//!
//! Every round runs one job for each server, so that drifts of the machine hit all of them. A job
//! runs every case once, each beside the limit of the same bytes, and verifies the data. The tables
//! show medians over the rounds. A case that takes too long or fails is reported as such and not
//! repeated; losing cases stay in the tables.

mod applications;
mod cases;
mod job;
mod measure;
mod place;
mod posix;
mod report;
mod results;
mod server;
mod slow;
mod start;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures MPI-IO under aggio, under the native implementations, and as plain system calls.
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
    #[arg(long = "on", value_name = "NAME=DIRECTORY")]
    places: Vec<String>,
    /// The program that mounts the slow file system, to measure that as well.
    #[arg(long, requires = "slow_directory")]
    slowfs: Option<PathBuf>,
    /// Where to mount the slow file system.
    #[arg(long)]
    slow_directory: Option<PathBuf>,
    /// Options of the slow file system.
    #[arg(
        long,
        default_value = "--latency-us 1000 --bandwidth 500M --lock-unit 1M --lock-latency-us 1000",
        allow_hyphen_values = true
    )]
    slow_options: String,
    /// Rounds; medians are taken over them.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Ranks of each job.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8])]
    ranks: Vec<u32>,
    /// A pattern file to use everywhere instead of the standard ones.
    #[arg(long)]
    patterns: Option<PathBuf>,
    /// Only patterns with names that begin like this.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these methods: collective, independent, overlap, overlap-test.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<String>,
    /// Only these servers: aggio, ompio, romio-in-openmpi, romio, romio-sieving, romio-list,
    /// romio-wide.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// Small sizes, 4 ranks, 3 rounds: for trying things out.
    #[arg(long)]
    quick: bool,
    /// Seconds after which a case is given up.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Seconds of a case above which three rounds of it are enough.
    #[arg(long, default_value_t = 10.0)]
    patience: f64,
    /// Also measures the start of processes.
    #[arg(long)]
    start: bool,
    /// Only programs without MPI, by the same options: files that are managed, containers, large
    /// writes.
    #[arg(long)]
    posix: bool,
    /// Only patterns of applications by MPI-IO and PnetCDF, without and with `AGGIO_DEFER`.
    #[arg(long)]
    applications: bool,
    /// Where PnetCDF is installed for MPICH, for `--applications`.
    #[arg(long)]
    pnetcdf_mpich: Option<PathBuf>,
    /// Where the CSV file, the Markdown table and the plots go.
    #[arg(long, default_value = "docs/benchmarks")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        arguments.rounds = arguments.rounds.min(3);
        arguments.ranks = vec![4];
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("aggio-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Becomes true when a signal asks the program to end; mounts and jobs are cleaned up first.
fn interruption() -> Result<Arc<AtomicBool>, String> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(|why| why.to_string())?;
    }
    Ok(flag)
}

/// Whether aggio served every case rightly.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let interrupted = interruption()?;
    if arguments.posix {
        let document = posix::measure(arguments, &interrupted)?;
        return store(arguments, "posix.md", &document).map(|()| true);
    }
    if arguments.applications {
        let document = applications::measure(arguments, &interrupted)?;
        return store(arguments, "applications.md", &document).map(|()| true);
    }
    let results = measure::all(arguments, &interrupted)?;
    let table = report::write(arguments, &results)
        .map_err(|why| format!("{}: {why}", arguments.out.display()))?;
    println!("{table}");
    if arguments.start && !interrupted.load(Ordering::Relaxed) {
        let table = start::measure(&arguments.library)?;
        store(arguments, "start.md", &table)?;
    }
    let failures = results.failures_of_aggio();
    for failure in &failures {
        eprintln!("aggio-bench: {failure}");
    }
    Ok(failures.is_empty())
}

/// Writes a document among the others, and shows it.
fn store(arguments: &Arguments, name: &str, document: &str) -> Result<(), String> {
    let path = arguments.out.join(name);
    std::fs::create_dir_all(&arguments.out)
        .and_then(|()| std::fs::write(&path, document))
        .map_err(|why| format!("{}: {why}", path.display()))?;
    println!("{document}");
    Ok(())
}

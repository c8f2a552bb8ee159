//! Which cases are measured, and in which order the jobs run.

use crate::Arguments;
use crate::jobs::{self, Mpi, Server};
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};

/// All times of one case under one server.
pub(crate) struct Sample {
    pub(crate) mpi: Mpi,
    pub(crate) place: String,
    pub(crate) server: Server,
    /// As the benchmark program names it: METHOD:OPERATION:PIECE:BYTES.
    pub(crate) case: String,
    pub(crate) seconds: Vec<f64>,
    /// Seconds of the limit of the same operation in the same job, round by round.
    pub(crate) limits: Vec<f64>,
}

const PIECES: &[usize] = &[0, 8, 64, 1024, 65536];

/// The cases of one job; each operation begins with its limit.
fn cases(arguments: &Arguments) -> Vec<String> {
    let bytes = arguments.mebibytes << 20;
    let mut cases = Vec::new();
    for &piece in PIECES {
        if arguments.contiguous && piece != 0 {
            continue;
        }
        // The native implementations take minutes for the smallest pieces of large files.
        let bytes = if piece > 0 && piece < 1024 { bytes.min(16 << 20) } else { bytes };
        for operation in ["write", "read"] {
            for method in ["limit", "collective", "independent"] {
                let slow = method == "independent" && piece > 0 && piece < 1024;
                if !slow {
                    cases.push(format!("{method}:{operation}:{piece}:{bytes}"));
                }
            }
        }
    }
    cases
}

fn place(text: &str) -> Result<(&str, &Path), String> {
    let (name, directory) = text.split_once('=').ok_or(format!("{text}: want NAME=DIRECTORY"))?;
    Ok((name, Path::new(directory)))
}

/// Runs all jobs, round by round, the servers in alternation.
pub(crate) fn measure(arguments: &Arguments) -> Result<Vec<Sample>, String> {
    let programs: Vec<(Mpi, &PathBuf)> =
        [(Mpi::OpenMpi, &arguments.openmpi), (Mpi::Mpich, &arguments.mpich)]
            .into_iter()
            .filter_map(|(mpi, program)| Some((mpi, program.as_ref()?)))
            .collect();
    let cases = cases(arguments);
    let mut samples = Vec::new();
    let jobs: usize = programs.iter().map(|(mpi, _)| mpi.servers().len()).sum();
    let bar = ProgressBar::new((jobs * arguments.places.len() * arguments.rounds) as u64);
    for text in &arguments.places {
        let (name, directory) = place(text)?;
        for &(mpi, program) in &programs {
            let mut block = empty_block(mpi, name, &cases);
            for _ in 0..arguments.rounds {
                for &server in mpi.servers() {
                    let scratch = Scratch::create(directory)?;
                    let times = jobs::run(
                        mpi,
                        server,
                        &arguments.library,
                        program,
                        arguments.ranks,
                        &scratch.0,
                        &cases,
                    )?;
                    record(&mut block, server, &cases, &times);
                    bar.inc(1);
                }
            }
            samples.append(&mut block);
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}

fn empty_block(mpi: Mpi, place: &str, cases: &[String]) -> Vec<Sample> {
    let measured = cases.iter().filter(|case| !case.starts_with("limit"));
    measured
        .flat_map(|case| {
            mpi.servers().iter().map(move |&server| Sample {
                mpi,
                place: place.into(),
                server,
                case: case.clone(),
                seconds: Vec::new(),
                limits: Vec::new(),
            })
        })
        .collect()
}

fn record(block: &mut [Sample], server: Server, cases: &[String], times: &[f64]) {
    let mut limit = f64::NAN;
    for (case, &seconds) in cases.iter().zip(times) {
        if case.starts_with("limit") {
            limit = seconds;
            continue;
        }
        let sample = block.iter_mut().find(|s| s.server == server && s.case == *case);
        if let Some(sample) = sample {
            sample.seconds.push(seconds);
            sample.limits.push(limit);
        }
    }
}

/// A fresh directory that goes away with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn create(parent: &Path) -> Result<Self, String> {
        let path = parent.join(format!("aggio-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

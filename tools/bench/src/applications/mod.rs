//! Patterns of applications, natively and with the library, without and with deferral, in
//! alternation: `applications.md`.

mod cases;
mod run;

use crate::Arguments;
use crate::place::{Plan, Scratch, plans};
use crate::results::median;
use crate::server::{Mpi, SERVERS};
use cases::{CASES, Case, Program, Way, ways};
use run::Run;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const HEAD: &str = "\
# Applications

Patterns of simulations (`tools/bench/programs/tridiagonal.c` by MPI-IO, `decompositions.c` by
PnetCDF, `tests/programs/hdf5_chunks.c` by HDF5) from the opening of the file to the end of its
closing, written and read again. MiB/s of the data, medians of alternating rounds; *requests* are
those of all ranks to the file system for both directions; ratios are medians of the ratios of each
round. Every value that is read is checked.
**Bold**: slower than the best native run, or with `AGGIO_DEFER='*'` slower than without
(below 0.97). PnetCDF rows of an MPI are there if PnetCDF is built for it.

";

const COLUMNS: &str = "\
| pattern | MPI | ranks | natively, write / read | aggio | with deferral \
| write, aggio : best native | read, aggio : best native | write, deferral : without \
| requests without / with deferral |
|---|---|--:|---|---|---|--:|--:|--:|--:|
";

/// The state that all jobs share.
struct Bench<'a> {
    arguments: &'a Arguments,
    compiled: Scratch,
    /// The compiled programs, by MPI.
    programs: Vec<(Mpi, Program)>,
    interrupted: &'a AtomicBool,
}

/// Measures everything; the result is a document in Markdown.
pub(crate) fn measure(arguments: &Arguments, interrupted: &AtomicBool) -> Result<String, String> {
    let compiled = Scratch::create(&std::env::temp_dir(), "applications")?;
    let mut bench = Bench { arguments, compiled, programs: Vec::new(), interrupted };
    bench.compile()?;
    let mut text = HEAD.to_string();
    for plan in plans(arguments)? {
        let slow = matches!(plan, Plan::Slow { .. });
        let place = plan.make()?;
        let _ = write!(text, "## {}\n\n{COLUMNS}", place.name);
        for case in CASES.iter().filter(|case| wanted(arguments, case)) {
            for &ranks in case.ranks.iter().filter(|n| !arguments.quick || **n == 4) {
                for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
                    if bench.programs.contains(&(mpi, case.program)) {
                        let row = bench.row(case, mpi, ranks, &place.directory, slow);
                        let row = row.or_else(|why| bench.unmeasured(case, mpi, ranks, why))?;
                        eprint!("{row}");
                        text.push_str(&row);
                    }
                }
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// The compiler options for the HDF5 of an MPI.
fn hdf5_options(mpi: Mpi) -> Result<Vec<String>, String> {
    let package = format!("hdf5-{}", mpi.name());
    let output = Command::new("pkg-config").args(["--cflags", "--libs", &package]).output();
    let output = output.map_err(|why| format!("pkg-config: {why}"))?;
    if !output.status.success() {
        return Err(format!("pkg-config does not know {package}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn wanted(arguments: &Arguments, case: &Case) -> bool {
    let names = &arguments.only;
    names.is_empty() || names.iter().any(|name| case.name.starts_with(name.as_str()))
}

impl Bench<'_> {
    fn path(&self, mpi: Mpi, program: Program) -> PathBuf {
        self.compiled.0.join(format!("{}-{}", program.name(), mpi.name()))
    }

    fn compile(&mut self) -> Result<(), String> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (mpi, program) in [Mpi::OpenMpi, Mpi::Mpich]
            .iter()
            .flat_map(|mpi| Program::ALL.map(|program| (*mpi, program)))
        {
            let mut command = Command::new(format!("mpicc.{}", mpi.name()));
            command.args(["-O2", "-o"]).arg(self.path(mpi, program));
            let source = repository.join(program.folder()).join(program.name());
            command.arg(source.with_extension("c"));
            match (program, mpi, &self.arguments.pnetcdf_mpich) {
                (Program::Tridiagonal, ..) => {}
                (Program::Chunks, ..) => _ = command.args(hdf5_options(mpi)?),
                (_, Mpi::OpenMpi, _) => {
                    command.arg("-lpnetcdf");
                }
                (_, Mpi::Mpich, Some(place)) => {
                    let (include, library) = (place.join("include"), place.join("lib"));
                    command.arg("-I").arg(include).arg("-L").arg(&library);
                    command.arg(format!("-Wl,-rpath,{}", library.display())).arg("-lpnetcdf");
                }
                // Debian builds PnetCDF for Open MPI only.
                (_, Mpi::Mpich, None) => continue,
            }
            let status = command.status().map_err(|why| format!("mpicc.{}: {why}", mpi.name()))?;
            if !status.success() {
                return Err(format!("{}.c does not compile", program.name()));
            }
            self.programs.push((mpi, program));
        }
        Ok(())
    }

    fn row(
        &self,
        case: &Case,
        mpi: Mpi,
        ranks: u32,
        parent: &Path,
        slow: bool,
    ) -> Result<String, String> {
        let (natives, own) = ways(mpi);
        let all: Vec<Way> = natives.iter().chain(&own).copied().collect();
        let mut series: Vec<Vec<Run>> = vec![Vec::new(); all.len()];
        for _ in 0..self.arguments.rounds {
            for (way, runs) in all.iter().zip(&mut series) {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Err("interrupted".into());
                }
                runs.push(self.once(case, *way, ranks, parent, slow)?);
            }
        }
        let (natives, own) = series.split_at(natives.len());
        let names: Vec<&str> = all.iter().map(|way| SERVERS[way.server].name).collect();
        Ok(row_of(&format!("| {} | {} | {ranks} ", case.name, mpi.name()), &names, natives, own))
    }

    /// The row of a case in which a job failed or took too long, with the reason.
    fn unmeasured(&self, case: &Case, mpi: Mpi, ranks: u32, why: String) -> Result<String, String> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(why);
        }
        let (name, why) = (case.name, why.replace('|', "/"));
        Ok(format!(
            "| {name} | {} | {ranks} | not measured: {why} {}\n",
            mpi.name(),
            "| ".repeat(7)
        ))
    }

    fn once(
        &self,
        case: &Case,
        way: Way,
        ranks: u32,
        parent: &Path,
        slow: bool,
    ) -> Result<Run, String> {
        let data = Scratch::create(parent, "data")?;
        let own = Scratch::create(&std::env::temp_dir(), "job")?;
        let server = &SERVERS[way.server];
        let command = server.command(ranks, &self.arguments.library, &own.0);
        let mut command = command.map_err(|why| format!("{}: {why}", own.0.display()))?;
        if server.is_aggio() {
            command.arg("AGGIO_REPORT=json");
            if way.defers {
                command.arg("AGGIO_DEFER=*");
            }
        }
        command.arg(self.path(server.mpi, case.program)).arg(data.0.join("data"));
        let arguments = if slow { case.where_slow } else { case.arguments };
        command.args(arguments.split_whitespace());
        run::run(command, self.arguments.timeout, &own.0, self.interrupted)
            .map_err(|why| format!("{}, {ranks} ranks, {}: {why}", case.name, server.name))
    }
}

/// A row that begins with `start`: `natives` and then the library `own`, without and with deferral.
fn row_of(start: &str, names: &[&str], natives: &[Vec<Run>], own: &[Vec<Run>]) -> String {
    let middle = |values: Vec<f64>| median(&values).unwrap_or(f64::NAN);
    let speed = |runs: &[Run]| {
        let of = |seconds: fn(&Run) -> f64| {
            middle(runs.iter().map(|run| run.bytes / seconds(run) / f64::from(1 << 20)).collect())
        };
        format!("{:.0} / {:.0}", of(|run| run.written), of(|run| run.read))
    };
    let requests = |runs: &[Run]| middle(runs.iter().map(|run| run.requests as f64).collect());
    let ratios = |than: &[Vec<Run>], runs: &[Run], seconds: fn(&Run) -> f64| {
        let best = |round: usize| {
            than.iter().map(|runs| seconds(&runs[round])).fold(f64::INFINITY, f64::min)
        };
        let all = runs.iter().enumerate();
        middle(all.map(|(round, run)| best(round) / seconds(run)).collect())
    };
    let written = ratios(natives, &own[0], |run| run.written);
    let read = ratios(natives, &own[0], |run| run.read);
    let deferred = ratios(&own[..1], &own[1], |run| run.written);
    let marked = |value: f64, least: f64| {
        let text = format!("{value:.2}");
        if value < least { format!("**{text}**") } else { text }
    };
    let native: Vec<String> =
        names.iter().zip(natives).map(|(name, runs)| format!("{name} {}", speed(runs))).collect();
    format!(
        "{start}| {} | {} | {} | {} | {} | {} | {:.0} / {:.0} |\n",
        native.join(", "),
        speed(&own[0]),
        speed(&own[1]),
        marked(written, 1.0),
        marked(read, 1.0),
        marked(deferred, 0.97),
        requests(&own[0]),
        requests(&own[1]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_compares_with_the_best_native_run_of_each_round() {
        let run = |written| Run { written, read: 0.5, bytes: 1048576.0, requests: 3 };
        let natives = [vec![run(1.0), run(2.0)], vec![run(4.0), run(1.0)]];
        let own = [vec![run(2.0), run(0.5)], vec![run(1.0), run(0.5)]];
        let row = row_of("| a ", &["x", "y"], &natives, &own);
        // Without deferral 1/2 and 1/0.5, reading as long, with deferral 2/1 and 0.5/0.5.
        assert_eq!(row, "| a | x 1 / 2, y 1 / 2 | 1 / 2 | 2 / 2 | 1.25 | 1.00 | 1.50 | 3 / 3 |\n");
        let slower = row_of("", &["x"], &natives[..1], &[own[1].clone(), own[0].clone()]);
        assert!(slower.contains("| **0.75** |"), "{slower}");
    }
}

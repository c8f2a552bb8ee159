//! Which jobs run, and in which order.

use crate::Arguments;
use crate::cases::{self, Case};
use crate::job;
use crate::place::{self, Place, Scratch};
use crate::results::{Results, Row, Series};
use crate::server::{self, Mpi, SERVERS};
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Rounds of a case that is slower than the user has patience for.
const ROUNDS_OF_SLOW_CASES: usize = 3;

/// The state that all jobs of a run share.
struct Run<'a> {
    arguments: &'a Arguments,
    interrupted: &'a AtomicBool,
    servers: Vec<usize>,
    bar: ProgressBar,
}

/// Runs all jobs.
pub(crate) fn all(arguments: &Arguments, interrupted: &AtomicBool) -> Result<Results, String> {
    let servers = server::selected(&arguments.servers, |mpi| program(arguments, mpi).is_some())?;
    let plans = place::plans(arguments)?;
    let jobs = plans.len() * arguments.ranks.len() * arguments.rounds * servers.len();
    let run = Run { arguments, interrupted, servers, bar: ProgressBar::new(jobs as u64) };
    let mut results = Results::default();
    for plan in plans {
        let cases = cases::selected(arguments, plan.set())?;
        let place = plan.make()?;
        for &ranks in &arguments.ranks {
            results.rows.append(&mut run.block(&place, ranks, &cases)?);
        }
    }
    run.bar.finish_and_clear();
    Ok(results)
}

fn program(arguments: &Arguments, mpi: Mpi) -> Option<&PathBuf> {
    match mpi {
        Mpi::OpenMpi => arguments.openmpi.as_ref(),
        Mpi::Mpich => arguments.mpich.as_ref(),
    }
}

/// Whether a series needs no further round.
fn is_complete(series: &Series, patience: f64) -> bool {
    let slow = series.seconds().is_some_and(|seconds| seconds > patience);
    series.failure.is_some() || slow && series.measurements.len() >= ROUNDS_OF_SLOW_CASES
}

impl Run<'_> {
    /// All rounds at one place with one number of ranks, the servers in alternation.
    fn block(&self, place: &Place, ranks: u32, cases: &[Case]) -> Result<Vec<Row>, String> {
        let mut rows: Vec<Row> =
            cases.iter().map(|case| Row::new(&place.name, ranks, case.clone())).collect();
        for round in 0..self.arguments.rounds {
            for &server in &self.servers {
                let name = SERVERS[server].name;
                self.bar.println(format!(
                    "{}: {ranks} ranks, round {round}, {name} under {}",
                    place.name,
                    SERVERS[server].mpi.name()
                ));
                self.cases_of(server, round, place, &mut rows)?;
                self.bar.inc(1);
            }
        }
        Ok(rows)
    }

    /// Runs every case once; a job that a case ended is followed by one with the cases after that.
    fn cases_of(
        &self,
        server: usize,
        round: usize,
        place: &Place,
        rows: &mut [Row],
    ) -> Result<(), String> {
        let open = |row: &Row| !is_complete(&row.series[server], self.arguments.patience);
        let mut left: Vec<usize> = (0..rows.len()).filter(|&index| open(&rows[index])).collect();
        while let Some(&first) = left.first() {
            let wanted: Vec<String> =
                left.iter().map(|&index| rows[index].case.argument()).collect();
            let told = self.job(server, rows[first].ranks, place, &wanted)?;
            for (&index, mut measurement) in left.iter().zip(told.done.iter().copied()) {
                measurement.round = round;
                rows[index].series[server].measurements.push(measurement);
            }
            let done = told.done.len();
            if let (Some(failure), Some(&index)) = (told.failure, left.get(done)) {
                self.bar.println(format!("  {}: {failure:?}", rows[index].case.label()));
                rows[index].series[server].failure = Some(failure);
            }
            left.drain(..left.len().min(done + 1));
        }
        Ok(())
    }

    fn job(
        &self,
        server: usize,
        ranks: u32,
        place: &Place,
        cases: &[String],
    ) -> Result<job::Told, String> {
        let server = &SERVERS[server];
        let data = Scratch::create(&place.directory, "data")?;
        let own = Scratch::create(&std::env::temp_dir(), "job")?;
        let mut command = server
            .command(ranks, &self.arguments.library, &own.0)
            .map_err(|why| format!("{}: {why}", own.0.display()))?;
        let program = program(self.arguments, server.mpi).ok_or("no benchmark program")?;
        command.arg(program).args(place.options()).arg(&data.0).args(cases);
        job::run(command, cases.len(), self.arguments.timeout, &own.0, self.interrupted)
    }
}

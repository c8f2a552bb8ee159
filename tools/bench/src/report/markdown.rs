//! The tables for people.

use crate::Arguments;
use crate::report::{blocks, plot_name};
use crate::results::{Failure, Ratio, Results, Row, Series};
use crate::server::{SERVERS, Server};
use std::fmt::Write as _;

/// Below this part of the speed of the best native configuration a case is marked.
const LOSING: f64 = 0.97;

/// One section for each place and number of ranks.
pub(super) fn text(arguments: &Arguments, results: &Results) -> String {
    let mut text = format!(
        "# MPI-IO: aggio beside the native implementations\n\n\
         Made by `make bench`; [README.md](README.md) says what is measured and how to read it. \
         Medians of {} alternating\n\
         rounds; data verified in every run. Costs are *parts of the limit*: seconds of plain \
         contiguous `pwrite`/`pread`\n\
         of the same bytes by the same ranks, divided by seconds of the case, both in the same \
         job. The last columns are\n\
         ratios of speed: above 1, aggio is faster.\n",
        arguments.rounds
    );
    for rows in blocks(results) {
        let servers = measured(rows);
        section(&mut text, rows, &servers);
    }
    text
}

/// The servers that were measured at all.
fn measured(rows: &[Row]) -> Vec<usize> {
    let has = |index: &usize| {
        rows.iter().any(|row| {
            let series = &row.series[*index];
            !series.measurements.is_empty() || series.failure.is_some()
        })
    };
    (0..SERVERS.len()).filter(has).collect()
}

fn heading(server: &Server) -> String {
    let mpi = server.mpi.name();
    if server.is_aggio() { format!("**aggio ({mpi})**") } else { server.name.to_owned() }
}

fn section(text: &mut String, rows: &[Row], servers: &[usize]) {
    let _ = writeln!(text, "\n## {}, {} ranks\n", rows[0].place, rows[0].ranks);
    let _ = writeln!(text, "![part of the limit]({})\n", plot_name(rows));
    let _ = write!(text, "| pattern | method | MiB | limit, MiB/s |");
    let aggios: Vec<usize> =
        servers.iter().copied().filter(|&index| SERVERS[index].is_aggio()).collect();
    for &index in servers {
        let _ = write!(text, " {} |", heading(&SERVERS[index]));
    }
    for &index in &aggios {
        let mpi = SERVERS[index].mpi.name();
        let _ = write!(text, " / default ({mpi}) | / best native ({mpi}) |");
    }
    let columns = 4 + servers.len() + 2 * aggios.len();
    let _ = writeln!(text, " remarks |\n|{}", "---|".repeat(columns + 1));
    for row in rows {
        line(text, row, servers, &aggios);
    }
}

fn line(text: &mut String, row: &Row, servers: &[usize], aggios: &[usize]) {
    let bytes = row.case.bytes(row.ranks);
    let mebibytes = bytes as f64 / 1_048_576.0;
    let limits: Vec<f64> = servers
        .iter()
        .flat_map(|&index| &row.series[index].measurements)
        .map(|measurement| measurement.limit)
        .collect();
    let limit = crate::results::median(&limits).map_or("-".into(), |seconds| {
        if bytes == 0 { format!("{seconds:.3} s") } else { format!("{:.0}", mebibytes / seconds) }
    });
    let (name, method) = (&row.case.entry.name, row.case.method);
    let _ = write!(text, "| {name} | {method} {} | {mebibytes:.1} | {limit} |", row.case.operation);
    for &index in servers {
        let _ = write!(text, " {} |", figure(&row.series[index]));
    }
    for &index in aggios {
        let best = row.against_best(index);
        let best = best.map_or("-".into(), |(value, name)| format!("{} ({name})", ratio(value)));
        let _ =
            write!(text, " {} | {best} |", row.against_default(index).map_or("-".into(), ratio));
    }
    let _ = writeln!(text, " {} |", remarks(row, servers, aggios));
}

fn figure(series: &Series) -> String {
    match &series.failure {
        Some(Failure::TimedOut(seconds)) => format!("> {seconds} s"),
        Some(Failure::Failed(_)) => "fails".into(),
        None => series.part_of_limit().map_or("-".into(), |part| format!("{part:.3}")),
    }
}

fn ratio(ratio: Ratio) -> String {
    format!("{}{:.2}", if ratio.at_least { "> " } else { "" }, ratio.value)
}

/// Where aggio loses, how much was hidden, how many requests the file system saw.
fn remarks(row: &Row, servers: &[usize], aggios: &[usize]) -> String {
    let mut remarks = Vec::new();
    for &index in aggios {
        let loses = row.against_best(index).is_some_and(|(ratio, _)| ratio.value < LOSING);
        if loses {
            remarks.push(format!("**loses ({})**", SERVERS[index].mpi.name()));
        }
    }
    for &index in servers {
        let name = heading(&SERVERS[index]);
        if let Some(hidden) = row.series[index].hidden() {
            remarks.push(format!("{name} hides {:.0} %", hidden * 100.0));
        }
        if let Some(requests) = row.series[index].requests() {
            remarks.push(format!("{name} {requests:.0} requests"));
        }
    }
    remarks.join(", ")
}

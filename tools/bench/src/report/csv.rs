//! Every single measurement.

use crate::results::{Failure, Results};
use crate::server::SERVERS;
use std::fmt::Write as _;

/// A line for each run of each case, and one for each failure.
pub(super) fn text(results: &Results) -> String {
    let mut text = String::from(
        "file_system,ranks,mpi,server,pattern,method,operation,bytes,round,seconds,limit_seconds,\
         hidden,requests,outcome\n",
    );
    let optional = |value: Option<String>| value.unwrap_or_default();
    for row in &results.rows {
        let bytes = row.case.bytes(row.ranks);
        for (server, series) in SERVERS.iter().zip(&row.series) {
            let head = format!(
                "{},{},{},{},{},{},{},{bytes}",
                row.place,
                row.ranks,
                server.mpi.name(),
                server.name,
                row.case.entry.name,
                row.case.method,
                row.case.operation
            );
            for one in &series.measurements {
                let hidden = optional(one.hidden.map(|hidden| hidden.to_string()));
                let requests = optional(one.requests.map(|requests| requests.to_string()));
                let _ = writeln!(
                    text,
                    "{head},{},{},{},{hidden},{requests},ok",
                    one.round, one.seconds, one.limit
                );
            }
            match &series.failure {
                Some(Failure::TimedOut(seconds)) => {
                    let _ = writeln!(text, "{head},,,,,,over {seconds} s");
                }
                Some(Failure::Failed(why)) => {
                    let why = why.replace(['"', '\n'], "'");
                    let _ = writeln!(text, "{head},,,,,,\"{why}\"");
                }
                None => {}
            }
        }
    }
    text
}

//! Medians and ratios as CSV, Markdown and SVG.

mod csv;
mod markdown;
mod plot;

use crate::Arguments;
use crate::results::{Results, Row};
use std::io::{Error, Result};

/// Writes `mpi-io.csv`, `mpi-io.md` and a plot for each place and number of ranks; returns the
/// Markdown text.
pub(crate) fn write(arguments: &Arguments, results: &Results) -> Result<String> {
    std::fs::create_dir_all(&arguments.out)?;
    let table = markdown::text(arguments, results);
    std::fs::write(arguments.out.join("mpi-io.csv"), csv::text(results))?;
    std::fs::write(arguments.out.join("mpi-io.md"), &table)?;
    for rows in blocks(results) {
        let path = arguments.out.join(plot_name(rows));
        plot::draw(&path, rows).map_err(|why| Error::other(why.to_string()))?;
    }
    Ok(table)
}

/// The rows of one place and number of ranks together.
fn blocks(results: &Results) -> impl Iterator<Item = &[Row]> {
    results.rows.chunk_by(|a, b| (&a.place, a.ranks) == (&b.place, b.ranks))
}

fn plot_name(rows: &[Row]) -> String {
    format!("mpi-io-{}-{}.svg", rows[0].place, rows[0].ranks)
}

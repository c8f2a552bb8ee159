//! Medians and ratios as CSV, Markdown and SVG.

use crate::Arguments;
use crate::jobs::{Mpi, Server};
use crate::matrix::Sample;
use plotters::prelude::*;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The median over the rounds of (seconds of the limit / seconds of the case).
fn part_of_limit(sample: &Sample) -> f64 {
    let parts: Vec<f64> = sample.seconds.iter().zip(&sample.limits).map(|(s, l)| l / s).collect();
    median(&parts)
}

/// The row of one case: one sample for each server.
struct Row<'a> {
    native: &'a Sample,
    aggio: &'a Sample,
    romio: Option<&'a Sample>,
}

impl Row<'_> {
    /// Median over the rounds of (seconds of the slower native server / seconds of aggio).
    fn against_slower(&self) -> f64 {
        let romio = self.romio.map_or(&self.native.seconds, |romio| &romio.seconds);
        self.ratio(romio, f64::max)
    }

    /// The same against the faster native server.
    fn against_faster(&self) -> f64 {
        let romio = self.romio.map_or(&self.native.seconds, |romio| &romio.seconds);
        self.ratio(romio, f64::min)
    }

    fn ratio(&self, other: &[f64], pick: fn(f64, f64) -> f64) -> f64 {
        let rounds = self.native.seconds.iter().zip(other).zip(&self.aggio.seconds);
        median(&rounds.map(|((n, r), a)| pick(*n, *r) / a).collect::<Vec<_>>())
    }
}

fn rows(samples: &[Sample]) -> Vec<Row<'_>> {
    let natives = samples.iter().filter(|sample| sample.server == Server::Native);
    natives
        .filter_map(|native| {
            let with = |server| {
                samples.iter().find(|sample| {
                    sample.server == server
                        && sample.case == native.case
                        && sample.place == native.place
                        && sample.mpi == native.mpi
                })
            };
            Some(Row { native, aggio: with(Server::Aggio)?, romio: with(Server::Romio) })
        })
        .collect()
}

/// Writes `mpi-io.csv`, `mpi-io.md` and the plots into `out`; returns the Markdown text.
pub(crate) fn write(
    out: &Path,
    arguments: &Arguments,
    samples: &[Sample],
) -> std::io::Result<String> {
    std::fs::create_dir_all(out)?;
    let rows = rows(samples);
    let table = markdown(arguments, &rows);
    std::fs::write(out.join("mpi-io.csv"), csv(samples))?;
    std::fs::write(out.join("mpi-io.md"), &table)?;
    for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
        let shown: Vec<&Row> = rows.iter().filter(|row| row.native.mpi == mpi).collect();
        if !shown.is_empty() {
            let path = out.join(format!("mpi-io-{}.svg", mpi.name()));
            plot(&path, mpi, &shown).map_err(|why| std::io::Error::other(why.to_string()))?;
        }
    }
    Ok(table)
}

fn csv(samples: &[Sample]) -> String {
    let mut text = String::from("mpi,file_system,server,case,round,seconds,limit_seconds\n");
    for s in samples {
        for (round, (seconds, limit)) in s.seconds.iter().zip(&s.limits).enumerate() {
            let (mpi, server) = (s.mpi.name(), s.server.name());
            let _ =
                writeln!(text, "{mpi},{},{server},{},{round},{seconds},{limit}", s.place, s.case);
        }
    }
    text
}

fn markdown(arguments: &Arguments, rows: &[Row]) -> String {
    let mut text = format!(
        "# MPI-IO: aggio beside the native implementations\n\n\
         {} ranks, medians of {} alternating rounds, data verified in every run. A case is\n\
         METHOD:OPERATION:PIECE:BYTES; piece 0 is contiguous. *Part of the limit* compares with plain\n\
         `pwrite`/`pread` of disjoint contiguous parts in the same job. The last two columns are\n\
         speed ratios: above 1, aggio is faster. Losing cases are marked.\n\n\
         | MPI | file system | case | limit, MiB/s | native | ROMIO in Open MPI | aggio | aggio / slower native | aggio / faster native | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        arguments.ranks, arguments.rounds
    );
    for row in rows {
        let sample = row.native;
        let bytes: f64 = sample.case.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
        let limit = bytes / 1_048_576.0 / median(&sample.limits);
        let romio = row.romio.map_or("-".into(), |romio| format!("{:.3}", part_of_limit(romio)));
        let (slower, faster) = (row.against_slower(), row.against_faster());
        let mark = if faster < 0.97 { "loses" } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {limit:.0} | {:.3} | {romio} | {:.3} | {slower:.2} | {faster:.2} | {mark} |",
            sample.mpi.name(),
            sample.place,
            sample.case,
            part_of_limit(sample),
            part_of_limit(row.aggio),
        );
    }
    text
}

type PlotResult = Result<(), Box<dyn std::error::Error>>;

/// One bar for each case and server: the part of the limit.
fn plot(path: &Path, mpi: Mpi, rows: &[&Row]) -> PlotResult {
    let height = 120 + 40 * u32::try_from(rows.len())?;
    let root = SVGBackend::new(path, (1000, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}: part of the contiguous limit (native grey, aggio blue)", mpi.name());
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(300)
        .build_cartesian_2d(0.0..1.2, 0..rows.len() * 3)?;
    let label = |y: &usize| match rows.get(y / 3) {
        Some(row) if y % 3 == 1 => format!("{} {}", row.native.place, row.native.case),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(rows.len() * 3)
        .y_label_formatter(&label)
        .draw()?;
    for (index, row) in rows.iter().enumerate() {
        for (place, sample, colour) in
            [(0, row.native, RGBColor(150, 150, 150)), (1, row.aggio, BLUE)]
        {
            let bottom = index * 3 + place;
            let width = part_of_limit(sample).min(1.2);
            chart.draw_series([Rectangle::new(
                [(0.0, bottom), (width, bottom + 1)],
                colour.filled(),
            )])?;
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}

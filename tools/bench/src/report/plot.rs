//! Bars: the part of the limit that each server reaches in each case.

use crate::results::Row;
use crate::server::SERVERS;
use plotters::prelude::*;
use std::path::Path;

type PlotResult = Result<(), Box<dyn std::error::Error>>;

/// Bars longer than this are cut.
const LONGEST: f64 = 1.2;

/// aggio in blue tones, the natives in grey and brown ones.
fn colour(server: usize) -> RGBColor {
    const COLOURS: [RGBColor; 8] = [
        RGBColor(20, 80, 200),
        RGBColor(120, 120, 120),
        RGBColor(170, 170, 170),
        RGBColor(90, 150, 240),
        RGBColor(130, 90, 50),
        RGBColor(170, 130, 80),
        RGBColor(200, 170, 120),
        RGBColor(225, 205, 170),
    ];
    COLOURS[server % COLOURS.len()]
}

/// Draws the rows of one place and number of ranks.
pub(super) fn draw(path: &Path, rows: &[Row]) -> PlotResult {
    let step = SERVERS.len() + 1;
    let steps = rows.len() * step;
    let height = 120 + 7 * u32::try_from(steps)?;
    let root = SVGBackend::new(path, (1000, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}, {} ranks: part of the contiguous limit", rows[0].place, rows[0].ranks);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(300)
        .build_cartesian_2d(0.0..LONGEST, 0..steps)?;
    // The first row on top.
    let bottom = |row: usize| (rows.len() - 1 - row) * step;
    let label = |y: &usize| match rows.len().checked_sub(1 + y / step) {
        Some(row) if y % step == step / 2 => rows[row].case.label(),
        _ => String::new(),
    };
    chart.configure_mesh().disable_y_mesh().y_labels(steps).y_label_formatter(&label).draw()?;
    for (index, server) in SERVERS.iter().enumerate() {
        let bars = rows.iter().enumerate().filter_map(|(row, one)| {
            let width = one.series[index].part_of_limit()?.min(LONGEST);
            let y = bottom(row) + SERVERS.len() - 1 - index;
            Some(Rectangle::new([(0.0, y), (width, y + 1)], colour(index).filled()))
        });
        let name = format!("{} ({})", server.name, server.mpi.name());
        chart.draw_series(bars)?.label(name).legend(move |(x, y)| {
            Rectangle::new([(x, y - 5), (x + 15, y + 5)], colour(index).filled())
        });
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

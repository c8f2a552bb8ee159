//! Commands on containers, sets of netCDF files, and files beside them.

pub(crate) mod cat;
pub(crate) mod fsck;
pub(crate) mod index;
pub(crate) mod ls;
pub(crate) mod merge;
pub(crate) mod recover;
pub(crate) mod split;
pub(crate) mod stat;
pub(crate) mod verify;

mod assemble;
mod blobs;
mod compare;
mod facts;
mod in_container;
mod netcdf;
mod pour;
mod sets;
mod unnamed;

pub(crate) use sets::Hole;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Display;
use std::path::Path;

/// Bytes that are moved at a time.
const PIECE: usize = 4 << 20;

/// So many threads as were asked for, or one for each core if that is 0.
fn threads(asked: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    if asked == 0 { cores() } else { asked }
}

/// An error with the path in front, unless it names one itself.
fn at(path: &Path, why: impl Display) -> String {
    let why = why.to_string();
    let path = path.display().to_string();
    if why.contains(&path) { why } else { format!("{path}: {why}") }
}

/// Does something long and tells how far it is, if standard error is a terminal.
fn show_progress<T>(what: &'static str, act: impl FnOnce(&(dyn Fn(u64, u64) + Sync)) -> T) -> T {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let form = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(form);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    let value = act(&|done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    value
}

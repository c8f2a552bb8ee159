//! Commands on containers and on files beside them.

pub(crate) mod cat;
pub(crate) mod fsck;
pub(crate) mod index;
pub(crate) mod ls;
pub(crate) mod merge;
pub(crate) mod recover;
pub(crate) mod split;
pub(crate) mod stat;

mod facts;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Display;
use std::path::Path;

/// Bytes that are moved at a time.
const PIECE: usize = 4 << 20;

/// An error with the path in front, unless it names one itself.
fn at(path: &Path, why: impl Display) -> String {
    let why = why.to_string();
    let path = path.display().to_string();
    if why.contains(&path) { why } else { format!("{path}: {why}") }
}

/// How far a long command is; hidden where standard error is no terminal.
fn progress(bytes: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    let form = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.set_style(
        ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_message(what);
    bar
}

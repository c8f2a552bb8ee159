//! The progress of a long command: the amount done, the speed, and the remaining time; on a
//! terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Shorter work shows no progress.
const PATIENCE: Duration = Duration::from_millis(1000);
const FORM: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left";

/// Takes the bytes that are done and those that there are in all.
pub(crate) type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Does something long and shows its progress, if standard error is a terminal.
pub(crate) fn show<T>(what: &'static str, act: impl FnOnce(Progress<'_>) -> T) -> T {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template(FORM);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    let start = Instant::now();
    let value = act(&|done, total| {
        if bar.is_hidden() && start.elapsed() > PATIENCE {
            // Hidden all the same where there is no terminal.
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    value
}

/// As [`show`], for several things of known sizes one after the other: `act` receives each with a
/// function that takes the number of its bytes that are done.
pub(crate) fn each<T, R>(
    what: &'static str,
    things: Vec<(T, u64)>,
    mut act: impl FnMut(T, &(dyn Fn(u64) + Sync)) -> R,
) -> Vec<R> {
    let total = things.iter().map(|(_, size)| size).sum();
    show(what, |progress| {
        let mut before = 0;
        let one = |(thing, size): (T, u64)| {
            let result = act(thing, &|done| progress(before + done.min(size), total));
            before += size;
            progress(before, total);
            result
        };
        things.into_iter().map(one).collect()
    })
}

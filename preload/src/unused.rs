//! Patterns in the settings that matched no file, which are probably mistakes of the user. Reported
//! once a job, at its end.

use crate::config;
use agg_core::log::{self, Level};
use agg_core::pattern::Pattern;
use aggio_posix::state;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// This process has used MPI, and has reported unused patterns for MPI-IO when MPI ended.
static TOLD_BY_MPI: AtomicBool = AtomicBool::new(false);
/// When MPI ends: rank 0 reports the patterns that matched none of the files that it opened.
pub fn tell_after_mpi() {
    if TOLD_BY_MPI.swap(true, Relaxed) {
        return;
    }
    let config = config::get();
    if !config.settings.on {
        return;
    }
    let [blobs, _] = config.settings.unused();
    let of_rank = |variable: &str, pattern: &Pattern| tell(variable, pattern, "rank 0");
    config.sources.unused().for_each(|(variable, pattern)| of_rank(variable, pattern));
    blobs.into_iter().for_each(|pattern| of_rank("AGGIO_BLOB", pattern));
}

/// When a process ends for which there are rules. A process that only reads, that has started
/// others, or that was itself started by a process under this library does not report: it is only a
/// part of a job.
pub fn tell_at_exit() {
    if state::has_started_others() || !state::has_written() || parent_is_served() {
        return;
    }
    let [blobs, posix] = config::get().settings.unused();
    if !TOLD_BY_MPI.load(Relaxed) {
        blobs.into_iter().for_each(|pattern| tell("AGGIO_BLOB", pattern, "this program"));
    }
    posix.into_iter().for_each(|pattern| tell("AGGIO_POSIX", pattern, "this program"));
}

fn tell(variable: &str, pattern: &Pattern, who: &str) {
    let text = format!("{variable}: {:?} matched no file that {who} opened", pattern.text());
    log::once(Level::Warn, &text);
}

/// Whether the process that started this one had this library preloaded.
fn parent_is_served() -> bool {
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getppid() };
    let environment = std::fs::read(format!("/proc/{parent}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| {
        entry.starts_with(b"LD_PRELOAD=") && entry.windows(8).any(|part| part == b"libaggio")
    })
}

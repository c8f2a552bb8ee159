//! Commands that make files: unfinished files are removed, even if a signal ends the process.

use agg_core::output::Unfinished;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Calls `act`, which makes files. A signal that asks the process to end first removes unfinished
/// files, unless the process ignores the signal, as under `nohup`; a file that would be longer than
/// files may be is an error of the write.
///
/// # Errors
/// The error of `act`; if signals cannot be caught.
pub(super) fn guarded<T>(act: impl FnOnce(&Unfinished) -> Result<T, String>) -> Result<T, String> {
    let unfinished = Arc::new(Unfinished::new());
    let told = |why: std::io::Error| format!("signals: {why}");
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(told)?;
    let ignored = ignored();
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let caught = signal_hook::iterator::Signals::new(
        wanted.filter(|signal| ignored & (1 << (signal - 1)) == 0),
    );
    let mut signals = caught.map_err(told)?;
    let handle = signals.handle();
    let of_thread = Arc::clone(&unfinished);
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            of_thread.remove_all();
            // As if nobody had caught it.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let thread =
        std::thread::Builder::new().name("aggio-signals".into()).spawn(wait).map_err(told)?;
    let done = act(&unfinished);
    handle.close();
    // It has nothing to say.
    let _ = thread.join();
    done
}

/// The signals that the process ignores, the first in the lowest bit; none where the system does
/// not say.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

//! The first meeting of the processes of a communicator, at which all have to be here.
//!
//! A process that runs without this library makes other calls in its `MPI_File_open`, and the
//! others wait for it for ever, inside the MPI library. It cannot be distinguished from a late
//! process, but a warning can name the possible cause.

use agg_core::log::{self, Level};
use agg_core::workers;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time after which a waiting rank logs a warning.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches a call that needs all processes of a communicator, until it is dropped.
pub(super) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches a call of `size` processes; this one is number `rank`. A watching thread, which only
    /// waits, runs on rank 0 of the communicator, which may be the process that does not come, and
    /// on processes that log warnings, such as rank 0 of the world, which may not be in the
    /// communicator. If no thread can be started, there is no warning.
    pub(super) fn begin(rank: usize, size: usize) -> Self {
        let (end, ended) = channel();
        if rank != 0 && !log::enabled(Level::Warn) {
            return Self { end: None, thread: None };
        }
        let watch = move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                tell(size);
            }
        };
        let builder = thread::Builder::new().name("aggio-watch".to_owned());
        let thread = workers::without_signals(|| builder.spawn(watch)).ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tell(size: usize) {
    let seconds = PATIENCE.as_secs();
    log::once_on_any_rank(
        Level::Warn,
        &format!(
            "MPI_File_open: not all {size} processes of the communicator have come to this call \
             within {seconds} s; one that runs without aggio never will: start all of them with \
             the library, those of MPI_Comm_spawn and of other hosts too (LD_PRELOAD, \
             docs/limits.md)"
        ),
    );
}

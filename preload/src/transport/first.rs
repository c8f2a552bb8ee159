//! The first meeting of the processes of a communicator, at which all have to be here.
//!
//! A process that runs without this library makes other calls in its `MPI_File_open`, and the
//! others wait for it for ever, inside the MPI library. Nobody can tell it from one that is late,
//! but somebody can say what may be wrong.

use agg_core::log::{self, Level};
use agg_core::workers;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a rank waits before it says what may be wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches a call that needs all processes of a communicator, until it is dropped.
pub(super) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches a call of `size` processes, of which this one is number `rank`. The first of them
    /// speaks, which may be the one that does not come, and the first of the world, which may not
    /// be among them; the others have no thread. That does nothing but wait; where there can be
    /// none, nobody watches.
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

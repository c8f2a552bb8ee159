//! Threads that carry on operations while the program computes.
//!
//! A worker polls futures like any thread of the program, but it never sends a message, so it never
//! calls MPI; a future that needs messages goes back to the program's threads (see
//! `task/place.rs`). Workers are made when the first operation needs one and end when there has
//! been nothing to do for a while. Where no thread can be made, the program's threads do all.

mod pool;
mod quiet;
mod running;
mod together;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use pool::Workers;
pub use quiet::without_signals;
pub use running::Running;
pub use together::together;

use crate::task;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Counts events of workers: an operation has ended, settled, or needs the program's threads.
static EVENTS: AtomicU32 = AtomicU32::new(0);

/// The number of events of workers so far. Read it before looking for changes.
pub fn events() -> u32 {
    EVENTS.load(Ordering::SeqCst)
}

/// Sleeps until there is an event of a worker that `seen` does not count, at most for `most`.
pub fn rest(seen: u32, most: Duration) {
    crate::node::sleep(EVENTS.as_ptr() as usize, seen, most);
}

/// To be called by a future that waits for the next event of a worker.
pub fn sleep_until_told(seen: u32) {
    task::sleep_until_changed(&EVENTS, seen);
}

fn tell() {
    EVENTS.fetch_add(1, Ordering::SeqCst);
    crate::node::wake(&EVENTS);
}

//! Driving engine operations to their end.

use std::future::Future;

/// Runs `future` to its end on the calling thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    agg_core::task::block_on(future, |_| std::thread::yield_now())
}

//! For tests: ranks that are threads of the test process.

use super::ThreadTransport;
use crate::task::{BoxFuture, block_on};
use crate::transport::Transport;
use std::sync::Arc;
use std::time::Duration;

/// Runs `body` on `size` threads, one a rank, and returns the results in rank order.
///
/// A rank that hangs for 30 s or panics ends the test process: its peers would wait forever.
pub fn run<T: Send + 'static>(
    size: usize,
    body: impl Fn(Arc<ThreadTransport>) -> BoxFuture<'static, T> + Sync,
) -> Vec<T> {
    run_on(ThreadTransport::group(size), body)
}

/// As [`run`], for the ranks of an existing group.
pub fn run_on<T: Send + 'static>(
    ranks: Vec<Arc<ThreadTransport>>,
    body: impl Fn(Arc<ThreadTransport>) -> BoxFuture<'static, T> + Sync,
) -> Vec<T> {
    let body = &body;
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    std::thread::scope(|scope| {
        let play = |transport: Arc<ThreadTransport>| {
            let rank = transport.rank();
            let turn = || {
                block_on(body(Arc::clone(&transport)), |waits| {
                    transport.idle(waits);
                    if waits % 256 == 255 && std::time::Instant::now() > deadline {
                        eprintln!("rank {rank} hangs: the test process ends");
                        std::process::abort();
                    }
                })
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(turn)).unwrap_or_else(|_| {
                eprintln!("rank {rank} panicked: the test process ends");
                std::process::abort()
            })
        };
        let threads: Vec<_> =
            ranks.into_iter().map(|transport| scope.spawn(move || play(transport))).collect();
        threads.into_iter().map(|thread| thread.join().expect("caught above")).collect()
    })
}

//! Running engine futures: every operation is one `async` body, whether the caller blocks or not.
//!
//! A blocking call drives its future with [`block_on`]; a nonblocking call keeps the boxed future
//! and polls it from later calls. Futures here are woken by nobody but the poller, unless a
//! transport registers wakers of its own.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// A boxed future, the return type of asynchronous trait methods.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Polls `future` to its end on this thread.
///
/// Between two polls it calls `idle(n)`, where `n` counts the polls without a result; the callee
/// decides how to wait (spin, yield, sleep, or progress other work).
pub fn block_on<T>(future: impl Future<Output = T>, mut idle: impl FnMut(u32)) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = 0u32;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        idle(waits);
        waits = waits.saturating_add(1);
    }
}

/// Polls all `futures` until each has ended; the results keep their order.
pub async fn join_all<'a, T>(futures: Vec<BoxFuture<'a, T>>) -> Vec<T> {
    let mut slots: Vec<(Option<BoxFuture<'a, T>>, Option<T>)> =
        futures.into_iter().map(|future| (Some(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, value) in &mut slots {
            let Some(running) = future else { continue };
            match running.as_mut().poll(context) {
                Poll::Ready(result) => {
                    *value = Some(result);
                    *future = None;
                }
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    slots.into_iter().filter_map(|(_, value)| value).collect()
}

/// Gives other work on this thread one turn.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

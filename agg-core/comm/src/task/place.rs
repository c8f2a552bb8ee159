//! Where a future is polled: threads of the program may send messages, workers may not.
//!
//! A future states where it can continue: it awaits [`on_caller`] before it needs messages,
//! [`anywhere`] when it needs none for now, [`settle`] when it will never need any again. The
//! poller in [`crate::workers`] grants that; under any other poller nothing happens.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The thread that polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poller {
    /// A thread of the program that waits for this future and nothing else.
    Waiting,
    /// A thread of the program that passes by.
    Passing,
    /// A worker: nothing of MPI may be called.
    Worker,
}

/// The request of a future that was polled and is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Go on where messages may be sent.
    Caller,
    /// Go on anywhere.
    Anywhere,
    /// Go on here; never again will messages be needed.
    Settled,
}

thread_local! {
    static POLLER: Cell<Poller> = const { Cell::new(Poller::Waiting) };
    static WISH: Cell<Option<Wish>> = const { Cell::new(None) };
}

/// Polls `future` as `poller`; its request, if any, comes with the result.
pub(crate) fn poll_as<F: Future + ?Sized>(
    poller: Poller,
    future: Pin<&mut F>,
    context: &mut Context<'_>,
) -> (Poll<F::Output>, Option<Wish>) {
    let outer = (POLLER.replace(poller), WISH.take());
    let polled = future.poll(context);
    let wish = WISH.replace(outer.1);
    POLLER.set(outer.0);
    (polled, wish)
}

/// Whether the future being polled runs on a worker, where nothing of MPI may be called.
#[inline]
pub fn on_worker() -> bool {
    POLLER.get() == Poller::Worker
}

/// Goes on where messages may be sent.
pub async fn on_caller() {
    std::future::poll_fn(|_| {
        if !on_worker() {
            return Poll::Ready(());
        }
        WISH.set(Some(Wish::Caller));
        Poll::Pending
    })
    .await;
}

/// Goes on on a worker if there is one. Messages may be needed again, after [`on_caller`].
pub async fn anywhere() {
    once(Poller::Passing, Wish::Anywhere).await;
}

/// States that [`on_caller`] will not be awaited again: threads of the program need not poll.
pub async fn settle() {
    once(Poller::Worker, Wish::Settled).await;
}

/// Asks a poller of one kind once.
async fn once(poller: Poller, wish: Wish) {
    let mut asked = false;
    std::future::poll_fn(|_| {
        if POLLER.get() != poller || std::mem::replace(&mut asked, true) {
            return Poll::Ready(());
        }
        WISH.set(Some(wish));
        Poll::Pending
    })
    .await;
}

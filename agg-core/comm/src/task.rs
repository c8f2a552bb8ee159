//! Running engine futures: every operation is one `async` body, whether the caller blocks or not.
//!
//! A blocking call drives its future with [`block_on`]; a nonblocking call keeps the boxed future
//! and polls it from later calls. Only the poller wakes futures here, unless a transport registers
//! wakers of its own.

pub mod place;

pub use place::on_worker;

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A boxed future, the return type of asynchronous trait methods.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Polls `future` to its end on this thread.
///
/// Between two polls it calls `idle(n)`, where `n` counts the polls without a result since the
/// future last woke itself (see [`yield_now`]); the callee decides how to wait (spin, yield,
/// sleep, or progress other work). A future that woke itself is polled again at once.
pub fn block_on<T>(future: impl Future<Output = T>, mut idle: impl FnMut(u32)) -> T {
    let mut future = pin!(future);
    let awake = Arc::new(Awake(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&awake));
    let mut context = Context::from_waker(&waker);
    let mut waits = 0u32;
    loop {
        SLEEP.set(Waits::Nothing);
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        if awake.0.swap(false, Ordering::Acquire) {
            waits = 0;
        } else {
            idle(waits);
            waits = waits.saturating_add(1);
        }
    }
}

/// A word of shared memory; the future that was polled last waits for it to change.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    address: usize,
    seen: u32,
    among_nodes: bool,
}

impl Sleep {
    /// Sleeps until the word has changed, at most for `most`; may end early.
    #[inline]
    pub fn wait(self, most: Duration) {
        crate::node::sleep(self.address, self.seen, most);
    }

    /// Whether the wait is for ranks of other nodes, too: their messages need this process.
    #[inline]
    pub fn is_among_nodes(self) -> bool {
        self.among_nodes
    }
}

/// The words that a thread's future waits for.
#[derive(Clone, Copy)]
enum Waits {
    Nothing,
    One(Sleep),
    Several,
}

thread_local! {
    static SLEEP: Cell<Waits> = const { Cell::new(Waits::Nothing) };
}

/// The single word of shared memory that the future polled last on this thread waits for, if it
/// waits for nothing else: its poller may [sleep](Sleep::wait) instead of polling again and again.
#[inline]
pub fn take_sleep() -> Option<Sleep> {
    match SLEEP.replace(Waits::Nothing) {
        Waits::One(sleep) => Some(sleep),
        Waits::Nothing | Waits::Several => None,
    }
}

/// To be called by a future that waits until `word` is no longer `seen`.
pub(crate) fn sleep_until_changed(word: &AtomicU32, seen: u32) {
    wait_for(Sleep { address: word.as_ptr() as usize, seen, among_nodes: false });
}

/// As [`sleep_until_changed`], in an operation of several nodes.
pub(crate) fn sleep_among_nodes(word: &AtomicU32, seen: u32) {
    wait_for(Sleep { address: word.as_ptr() as usize, seen, among_nodes: true });
}

fn wait_for(wanted: Sleep) {
    SLEEP.set(match SLEEP.get() {
        Waits::Nothing => Waits::One(wanted),
        // The older value will do for both.
        Waits::One(sleep) if sleep.address == wanted.address => Waits::One(sleep),
        Waits::One(_) | Waits::Several => Waits::Several,
    });
}

/// To be called by a future that waits for something other than a word of shared memory: its poller
/// must not sleep until some word changes.
#[inline]
pub fn poll_again() {
    SLEEP.set(Waits::Several);
}

/// Records that a future asked to be polled again.
struct Awake(AtomicBool);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls two futures until both have ended.
pub async fn join<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    std::future::poll_fn(move |context| {
        if left.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            left = Some(value);
        }
        if right.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            right = Some(value);
        }
        match (left.take(), right.take()) {
            (Some(left), Some(right)) => Poll::Ready((left, right)),
            (l, r) => {
                (left, right) = (l, r);
                Poll::Pending
            }
        }
    })
    .await
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

/// Gives other work on this thread one turn; asks to be polled again without an idle wait.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits one turn for something that other ranks or other futures do: the poller may idle.
pub async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        poll_again();
        Poll::Pending
    })
    .await;
}

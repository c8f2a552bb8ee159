//! An operation under way.

use super::pool::{Job, Turn, Workers};
use crate::task::place::{Poller, Wish, on_worker, poll_as};
use crate::task::{self, BoxFuture};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Polled by threads of the program.
const HERE: u8 = 0;
/// Polled by workers; may come back.
const AWAY: u8 = 1;
/// Polled by workers to its end.
const SETTLED: u8 = 2;
/// Its value is there, or was.
const ENDED: u8 = 3;

/// An operation that proceeds on workers while it needs no messages, and otherwise whenever a
/// thread of the program [polls](Running::poll) it.
pub struct Running<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// Held while the operation is polled.
    work: Mutex<Work<T>>,
    place: AtomicU8,
    workers: Workers,
}

struct Work<T> {
    future: Option<BoxFuture<'static, T>>,
    value: Option<T>,
}

impl<T> Clone for Running<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static> Running<T> {
    pub(super) fn new(workers: Workers, future: BoxFuture<'static, T>) -> Self {
        let work = Mutex::new(Work { future: Some(future), value: None });
        Self(Arc::new(Shared { work, place: AtomicU8::new(HERE), workers }))
    }

    pub(super) fn send_away(&self) {
        self.0.place.store(AWAY, Ordering::Release);
        if !self.0.workers.submit(self.0.clone()) {
            self.0.place.store(HERE, Ordering::Release);
        }
    }

    /// The operation's value, once, when it has ended. Lets it proceed as far as it can without
    /// waiting if it needs a thread of the program, this is one, and no other is at it.
    pub fn poll(&self) -> Option<T> {
        match self.0.place.load(Ordering::Acquire) {
            ENDED => self.0.work().value.take(),
            HERE if !on_worker() => self.poll_here(),
            _ => None,
        }
    }

    fn poll_here(&self) -> Option<T> {
        let mut work = self.0.work.try_lock().ok()?;
        if self.0.place.load(Ordering::Acquire) != HERE {
            return None;
        }
        let future = work.future.as_mut()?;
        let mut context = Context::from_waker(Waker::noop());
        match poll_as(Poller::Passing, future.as_mut(), &mut context) {
            (Poll::Ready(value), _) => {
                work.future = None;
                self.0.place.store(ENDED, Ordering::Release);
                Some(value)
            }
            (Poll::Pending, Some(Wish::Anywhere)) => {
                drop(work);
                self.send_away();
                None
            }
            (Poll::Pending, _) => None,
        }
    }

    /// Whether it proceeds only when threads of the program poll it.
    pub fn is_here(&self) -> bool {
        self.0.place.load(Ordering::Acquire) == HERE
    }

    /// Whether it needs no thread of the program any more, now or later.
    pub fn is_settled(&self) -> bool {
        self.0.place.load(Ordering::Acquire) >= SETTLED
    }

    /// Takes the operation away from all threads: none uses it when this returns. The caller drops
    /// the future, if it has not ended.
    pub fn stop(&self) -> Option<BoxFuture<'static, T>> {
        let mut work = self.0.work();
        let place = if work.future.is_some() { HERE } else { ENDED };
        self.0.place.store(place, Ordering::Release);
        work.future.take()
    }
}

impl<T> Shared<T> {
    fn work(&self) -> MutexGuard<'_, Work<T>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Job for Shared<T> {
    fn turn(&self) -> Turn {
        let mut work = self.work();
        if !matches!(self.place.load(Ordering::Acquire), AWAY | SETTLED) {
            return Turn::Over;
        }
        let Some(future) = work.future.as_mut() else { return Turn::Over };
        let awake = Arc::new(Awake(AtomicBool::new(false)));
        let waker = Waker::from(awake.clone());
        task::take_sleep();
        let polled = poll_as(Poller::Worker, future.as_mut(), &mut Context::from_waker(&waker));
        let (place, turn) = match polled {
            (Poll::Ready(value), _) => {
                // Drop the future's references to the file first: the program's threads must be the
                // last to hold any.
                work.future = None;
                work.value = Some(value);
                (ENDED, Turn::Over)
            }
            (Poll::Pending, Some(Wish::Caller)) => (HERE, Turn::Over),
            (Poll::Pending, Some(Wish::Settled)) => (SETTLED, Turn::Again),
            (Poll::Pending, _) if awake.0.load(Ordering::Acquire) => return Turn::Again,
            (Poll::Pending, _) => return Turn::Waiting(task::take_sleep()),
        };
        self.place.store(place, Ordering::Release);
        drop(work);
        super::tell();
        turn
    }
}

/// Records that a future asked to be polled again.
struct Awake(AtomicBool);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

//! The threads, and the operations that wait for one.

use super::quiet::without_signals;
use super::running::Running;
use crate::task::{BoxFuture, Sleep};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads of an engine at most. They mostly wait for the file system, so the number of processors
/// says little.
const MOST: usize = 4;

/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(2);

/// A thread with only waiting operations sleeps longer the more often it polled in vain. A change
/// of its operation's word wakes it; with several operations it sleeps for a shorter time, so that
/// one does not delay the others.
const STEP: Duration = Duration::from_micros(50);
const LONGEST_ALONE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_micros(500);

/// Something that takes turns on a thread.
pub(super) trait Job: Send + Sync {
    /// Continues until it would have to wait for others.
    fn turn(&self) -> Turn;
}

/// The result of a turn.
pub(super) enum Turn {
    /// The job is done.
    Over,
    /// Another turn, at once.
    Again,
    /// Another turn when others have done something, perhaps when a word has changed.
    Waiting(Option<Sleep>),
}

struct Pool {
    /// A process made by `fork` has none of the threads.
    process: u32,
    /// A function that every thread calls before its work.
    at_start: fn(),
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<dyn Job>>,
    threads: usize,
    /// Threads without work.
    idle: usize,
    /// Of those, how many shall end now.
    dismissed: usize,
}

/// The worker threads of an engine. They are made when there is work and end when there is none;
/// clones share them.
#[derive(Clone)]
pub struct Workers(Arc<Owner>);

struct Owner {
    at_start: fn(),
    /// Null, or a pool that lives as long as the process: threads may be at it at any time.
    pool: AtomicPtr<Pool>,
}

impl Default for Workers {
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Workers; each thread calls `at_start` before its work.
    pub fn new(at_start: fn()) -> Self {
        Self(Arc::new(Owner { at_start, pool: AtomicPtr::new(std::ptr::null_mut()) }))
    }

    /// An operation that threads of the program begin. Nothing happens before the first poll.
    pub fn here<T: Send + 'static>(&self, future: BoxFuture<'static, T>) -> Running<T> {
        Running::new(self.clone(), future)
    }

    /// An operation that a worker begins, or the first poll where there is none.
    pub fn away<T: Send + 'static>(&self, future: BoxFuture<'static, T>) -> Running<T> {
        let new = Running::new(self.clone(), future);
        new.send_away();
        new
    }

    /// Starts a separate thread, for work that waits for events other than a word of memory.
    ///
    /// # Errors
    /// The system's.
    pub fn thread(&self, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        #[cfg(any(test, feature = "testing"))]
        if super::testing::THREADLESS.get() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let thread = std::thread::Builder::new().name("aggio-asks".into());
        let at_start = self.0.at_start;
        let work = move || {
            at_start();
            work();
        };
        without_signals(|| thread.spawn(work))
    }

    /// Lets threads without work end now. Operations that come later get new ones.
    pub fn dismiss(&self) {
        if let Some(pool) = self.current() {
            let mut state = pool.state();
            state.dismissed = state.idle;
            pool.called.notify_all();
        }
    }

    /// The pool of this process, if it has one.
    fn current(&self) -> Option<&'static Pool> {
        // SAFETY: null or a pool that was leaked.
        let pool = unsafe { self.0.pool.load(Ordering::Acquire).as_ref() };
        pool.filter(|pool| pool.process == std::process::id())
    }

    /// The pool of this process. That of a process which forked this one is left as it is: its
    /// locks may be held by threads that do not exist here.
    fn pool(&self) -> &'static Pool {
        loop {
            if let Some(pool) = self.current() {
                return pool;
            }
            let old = self.0.pool.load(Ordering::Acquire);
            let new = Box::into_raw(Box::new(Pool {
                process: std::process::id(),
                at_start: self.0.at_start,
                state: Mutex::default(),
                called: Condvar::new(),
            }));
            // SAFETY: any thread that found `old` to be no pool of this process may try; the loser
            // keeps its own.
            let exchanged =
                self.0.pool.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
            if exchanged.is_err() {
                // SAFETY: made above and not shared.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// Gives `job` its turns on a thread. `false` if there is none and none can be made.
    pub(super) fn submit(&self, job: Arc<dyn Job>) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if super::testing::THREADLESS.get() {
            return false;
        }
        let pool = self.pool();
        let mut state = pool.state();
        state.queue.push_back(job.clone());
        state.dismissed = 0;
        if state.queue.len() <= state.idle || state.threads == MOST {
            pool.called.notify_one();
            return true;
        }
        state.threads += 1;
        drop(state);
        if spawn(pool) {
            return true;
        }
        let mut state = pool.state();
        state.threads -= 1;
        if state.threads > 0 {
            pool.called.notify_one();
            return true;
        }
        state.queue.retain(|queued| !Arc::ptr_eq(queued, &job));
        false
    }
}

/// Makes a thread that no signal of the program's is delivered to.
fn spawn(pool: &'static Pool) -> bool {
    let thread = std::thread::Builder::new().name("aggio-io".into());
    let work = move || {
        (pool.at_start)();
        pool.work();
    };
    without_signals(|| thread.spawn(work)).is_ok()
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` if the thread shall end.
    fn next(&self) -> Option<Arc<dyn Job>> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.queue.pop_front() {
                self.share(&state);
                return Some(job);
            }
            state.idle += 1;
            let (woken, waited) =
                self.called.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if state.queue.is_empty() && (waited.timed_out() || state.dismissed > 0) {
                state.dismissed = state.dismissed.saturating_sub(1);
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Queues a job behind the others and takes the first, which may be the same.
    fn exchange(&self, job: Arc<dyn Job>) -> Arc<dyn Job> {
        let mut state = self.state();
        if state.queue.is_empty() {
            return job;
        }
        state.queue.push_back(job.clone());
        let next = state.queue.pop_front().unwrap_or(job);
        self.share(&state);
        next
    }

    /// Calls a thread without work if there are jobs left.
    fn share(&self, state: &State) {
        if state.idle > 0 && !state.queue.is_empty() {
            self.called.notify_one();
        }
    }

    /// The loop of a thread.
    fn work(&self) {
        let mut vain = 0;
        let mut current = self.next();
        while let Some(job) = current {
            current = match job.turn() {
                Turn::Over => {
                    vain = 0;
                    drop(job);
                    self.next()
                }
                Turn::Again => {
                    vain = 0;
                    Some(self.exchange(job))
                }
                Turn::Waiting(sleep) => {
                    let others = self.state().queue.len();
                    vain += 1;
                    if vain > others {
                        rest(sleep, others, vain - others);
                    }
                    Some(self.exchange(job))
                }
            };
        }
    }
}

/// Sleeps after all operations in reach were looked at in vain, `times` times.
fn rest(sleep: Option<Sleep>, others: usize, times: usize) {
    let grown = STEP * u32::try_from(times.min(1000)).unwrap_or(1000);
    match sleep {
        Some(sleep) if others == 0 => sleep.wait(grown.min(LONGEST_ALONE)),
        Some(sleep) => sleep.wait(grown.min(LONGEST)),
        None => std::thread::sleep(grown.min(LONGEST)),
    }
}

//! Operations on workers, and where no worker can be made.

use super::*;
use crate::task::place::{anywhere, on_caller, settle};
use crate::task::{on_worker, pause, yield_now};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The workers of all tests here.
fn workers() -> &'static Workers {
    static WORKERS: OnceLock<Workers> = OnceLock::new();
    WORKERS.get_or_init(Workers::default)
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `done`; `false` if that takes too long.
fn in_time(mut done: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

fn value<T: Send + 'static>(running: &Running<T>) -> T {
    let mut value = None;
    assert!(in_time(|| {
        value = running.poll();
        value.is_some()
    }));
    value.expect("waited for")
}

#[test]
fn an_operation_ends_without_a_poll() {
    let ended = Arc::new(AtomicUsize::new(0));
    let flag = ended.clone();
    let running = workers().away(Box::pin(async move {
        yield_now().await;
        pause().await;
        flag.store(1, Ordering::Release);
        on_worker()
    }));
    assert!(in_time(|| ended.load(Ordering::Acquire) == 1));
    assert!(value(&running), "it ran on a worker");
    assert!(running.poll().is_none(), "the value is there once");
}

#[test]
fn what_needs_the_programs_threads_comes_back_to_them() {
    let running = workers().away(Box::pin(async {
        let before = on_worker();
        on_caller().await;
        (before, on_worker(), std::thread::current().id())
    }));
    assert!(in_time(|| running.is_here()));
    assert!(!running.is_settled());
    assert_eq!(value(&running), (true, false, std::thread::current().id()));
}

#[test]
fn a_worker_that_passes_by_leaves_it_to_the_programs_threads() {
    let polled = Arc::new(AtomicBool::new(false));
    let flag = polled.clone();
    let running = workers().here(Box::pin(async move { flag.store(true, Ordering::Release) }));
    let passing = running.clone();
    let passed = workers().away(Box::pin(async move { (on_worker(), passing.poll()) }));
    assert_eq!(value(&passed), (true, None));
    assert!(!polled.load(Ordering::Acquire), "a worker has polled it");
    assert_eq!(running.poll(), Some(()));
}

#[test]
fn what_needs_them_no_more_goes_away() {
    let running = workers().here(Box::pin(async {
        let before = on_worker();
        anywhere().await;
        settle().await;
        (before, on_worker())
    }));
    assert!(running.is_here());
    assert!(running.poll().is_none());
    assert!(in_time(|| running.is_settled()));
    assert_eq!(value(&running), (false, true));
}

#[test]
fn a_blocking_caller_keeps_its_future() {
    let wishes = async {
        anywhere().await;
        settle().await;
        on_caller().await;
        on_worker()
    };
    assert!(!crate::task::block_on(wishes, |_| panic!("nothing to wait for")));
}

#[test]
fn more_operations_than_threads_may_wait_for_each_other() {
    const COUNT: usize = 40;
    // Each waits for the one that was started after it.
    let turn = Arc::new(AtomicUsize::new(COUNT));
    let start = |number: usize| {
        let turn = turn.clone();
        workers().away(Box::pin(async move {
            while turn.load(Ordering::Acquire) != number + 1 {
                pause().await;
            }
            turn.store(number, Ordering::Release);
            number
        }))
    };
    let all: Vec<Running<usize>> = (0..COUNT).map(start).collect();
    for (number, running) in all.iter().enumerate() {
        assert_eq!(value(running), number);
    }
}

#[test]
fn who_waits_for_a_word_of_memory_is_woken() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    let running = workers().away(Box::pin(std::future::poll_fn(|_| {
        let seen = WORD.load(Ordering::SeqCst);
        if seen == 1 {
            return std::task::Poll::Ready(());
        }
        task::sleep_until_changed(&WORD, seen);
        std::task::Poll::Pending
    })));
    std::thread::sleep(Duration::from_millis(20));
    assert!(running.poll().is_none());
    let told = events();
    WORD.store(1, Ordering::SeqCst);
    crate::node::wake(&WORD);
    rest(told, PATIENCE);
    value(&running);
}

#[test]
fn a_stopped_operation_is_nobodys() {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let running: Running<()> = workers().away(Box::pin(async move {
        loop {
            counted.fetch_add(1, Ordering::AcqRel);
            yield_now().await;
        }
    }));
    assert!(in_time(|| turns.load(Ordering::Acquire) > 10));
    let future = running.stop();
    let last = turns.load(Ordering::Acquire);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(turns.load(Ordering::Acquire), last);
    assert!(future.is_some() && running.poll().is_none() && running.stop().is_none());
    drop((future, running));
    assert_eq!(Arc::strong_count(&turns), 1);
}

/// The blocked signals of a worker.
fn blocked_signals() -> u64 {
    let running = workers().away(Box::pin(async {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:").map(str::to_owned));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }));
    value(&running)
}

#[test]
fn no_signal_of_the_program_is_delivered_to_a_worker() {
    let blocked = blocked_signals();
    let bit = |signal: i32| blocked >> (signal - 1) & 1 == 1;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD] {
        assert!(bit(signal), "{signal}: {blocked:x}");
    }
    assert!(!bit(libc::SIGSEGV) && !bit(libc::SIGBUS), "{blocked:x}");
}

/// Runs `body` in a child process; whether it returned true.
fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `body` and ends, without returning into the test harness.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            libc::_exit(if body() { 7 } else { 1 });
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn a_forked_process_makes_workers_of_its_own() {
    value(&workers().away(Box::pin(async {})));
    assert!(in_child(|| {
        let alone = threads() == 1;
        let running = workers().away(Box::pin(async { on_worker() }));
        let mut ended = None;
        alone
            && in_time(|| {
                ended = running.poll();
                ended.is_some()
            })
            && ended == Some(true)
    }));
}

#[test]
fn workers_end_when_they_are_dismissed() {
    assert!(in_child(|| {
        let all: Vec<_> = (0..8).map(|_| workers().away(Box::pin(async {}))).collect();
        let made = threads();
        let ended = in_time(|| all.iter().all(Running::is_settled));
        let gone = in_time(|| {
            workers().dismiss();
            threads() == 1
        });
        let again = workers().away(Box::pin(async { on_worker() }));
        made > 1 && ended && gone && in_time(|| again.poll() == Some(true))
    }));
}

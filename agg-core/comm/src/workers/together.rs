//! A crew that lives as long as one call: the caller's thread and helpers beside it.

use super::quiet::has_memory;
use super::without_signals;

/// Runs `work` on this thread and on at most `threads - 1` others, and returns when all have ended.
///
/// `work` takes pending items until none is left. If no more threads can be made (`ulimit -u`, no
/// memory), the existing ones do the rest, so the result does not depend on the number of threads.
/// `stack` is the number of bytes of a helper's stack, if it is not to be the usual one.
pub fn together(threads: usize, name: &str, stack: Option<usize>, work: impl Fn() + Sync) {
    let work = &work;
    if threads < 2 || !has_memory() {
        return work();
    }
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let mut thread = std::thread::Builder::new().name(name.into());
            if let Some(stack) = stack {
                thread = thread.stack_size(stack);
            }
            if without_signals(|| thread.spawn_scoped(scope, work)).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::together;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_is_done_by_any_number_of_threads_also_where_none_can_be_made() {
        // No system has room for stacks of this size.
        for (threads, stack) in [(0, None), (1, None), (4, None), (100_000, Some(1 << 46))] {
            let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
            together(threads, "crew", stack, || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= 100 {
                        return;
                    }
                    sum.fetch_add(number, Ordering::Relaxed);
                }
            });
            assert_eq!(sum.into_inner(), 4950, "{threads} threads");
        }
    }
}

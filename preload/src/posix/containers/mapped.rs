//! Copies of containers that programs have as shared mappings: they may be read, and never become writable, because
//! nobody would store what is written there.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static COPIES: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

fn copies() -> MutexGuard<'static, Vec<Range<usize>>> {
    COPIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pages(start: usize, len: usize) -> Range<usize> {
    start..start.saturating_add(len.next_multiple_of(4096))
}

/// A shared mapping of `len` bytes at `start` is a copy.
pub(super) fn add(start: usize, len: usize) {
    let mut copies = copies();
    copies.push(pages(start, len));
    COUNT.store(copies.len(), Relaxed);
}

/// Whether any page of a range belongs to a copy.
pub fn has_copies(start: usize, len: usize) -> bool {
    let range = pages(start, len);
    COUNT.load(Relaxed) != 0
        && copies().iter().any(|copy| copy.start < range.end && range.start < copy.end)
}

/// The pages of a range are something else, or nothing, from now on.
pub fn forget_copies(start: usize, len: usize) {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    let range = pages(start, len);
    let mut copies = copies();
    let rest = |copy: &Range<usize>| {
        let before = copy.start..copy.end.min(range.start);
        let behind = copy.start.max(range.end)..copy.end;
        [before, behind].into_iter().filter(|part| part.start < part.end)
    };
    *copies = copies.iter().flat_map(rest).collect();
    COUNT.store(copies.len(), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unmapped_of_a_copy_is_none_any_more() {
        const HIGH: usize = 1 << 40;
        add(HIGH, 10 * 4096 - 5);
        assert!(has_copies(HIGH + 9 * 4096, 1) && !has_copies(HIGH + 10 * 4096, 100));
        forget_copies(HIGH + 2 * 4096, 4096);
        assert!(!has_copies(HIGH + 2 * 4096, 4096));
        assert!(has_copies(HIGH + 4096, 1) && has_copies(HIGH + 3 * 4096, 1));
        forget_copies(HIGH, 10 * 4096);
        assert!(!has_copies(HIGH, 10 * 4096));
    }
}

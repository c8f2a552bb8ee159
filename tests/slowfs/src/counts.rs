//! How many requests of each kind there were.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of requests that are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Lookup,
    Attributes,
    Change,
    Create,
    Open,
    Read,
    Write,
    Sync,
    List,
    BytesRead,
    BytesWritten,
    LockMoves,
}

/// Names of all kinds, in the order of [`Kind`].
const NAMES: [&str; 12] = [
    "lookup",
    "attributes",
    "change",
    "create",
    "open",
    "read",
    "write",
    "sync",
    "list",
    "bytes_read",
    "bytes_written",
    "lock_moves",
];

/// A counter of each kind.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; NAMES.len()]);

impl Counts {
    pub(crate) fn add(&self, kind: Kind, number: u64) {
        self.0[kind as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// Lines of `NAME NUMBER`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, count) in NAMES.iter().zip(&self.0) {
            let _ = writeln!(text, "{name} {}", count.load(Ordering::Relaxed));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_line() {
        let counts = Counts::default();
        counts.add(Kind::Write, 3);
        counts.add(Kind::LockMoves, 2);
        let text = counts.text();
        assert!(text.contains("\nwrite 3\n") && text.ends_with("lock_moves 2\n"), "{text}");
        assert_eq!(text.lines().count(), NAMES.len());
    }
}

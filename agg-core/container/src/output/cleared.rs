//! The result of clearing a remain of a killed process.

use std::path::PathBuf;

/// The result of clearing a remain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It is gone.
    Removed,
    /// Files with temporary names have their own names again: these.
    PutBack(Vec<PathBuf>),
    /// Nothing: a process needs it.
    Needed,
}

impl Cleared {
    pub(crate) fn removed(is: bool) -> Self {
        if is { Self::Removed } else { Self::Needed }
    }
}

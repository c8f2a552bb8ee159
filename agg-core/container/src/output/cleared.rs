//! What became of something that a killed process may have left.

use std::path::PathBuf;

/// What clearing a remain did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It is gone.
    Removed,
    /// What had another name for a moment has its own again: these.
    PutBack(Vec<PathBuf>),
    /// Nothing: somebody needs it.
    Needed,
}

impl Cleared {
    pub(crate) fn removed(is: bool) -> Self {
        if is { Self::Removed } else { Self::Needed }
    }
}

//! Checks, recovery after killed writers, and repairs.

pub(crate) mod check;
mod copy_folder;
mod examination;
pub(crate) mod findings;
mod losses;
mod rebuilding;
mod recovery;
pub(crate) mod remains;

pub use check::check;
pub(crate) use copy_folder::{DATA, JOURNAL, is_only_own, is_own, locked, remove};
pub(crate) use examination::examine;
pub use findings::{Check, Findings, Problem, Severity};
pub use recovery::{Recovered, recover};
pub use remains::{STAGED, clear, is_nameless, is_remain, lift_removed};

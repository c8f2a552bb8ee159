//! Checks, recovery after killed writers, and repairs.

pub(crate) mod check;
pub(crate) mod copy_folder;
pub(crate) mod examination;
pub(crate) mod findings;
pub(crate) mod losses;
pub(crate) mod rebuilding;
pub(crate) mod recovery;
pub(crate) mod remains;

//! Logs: files of frames. One process appends to a log, all others read it.

pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod summary;
pub(crate) mod tail;
pub(crate) mod writer_log;

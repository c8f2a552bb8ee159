//! Logs: files of frames. One process appends to a log, all others read it.

mod scan;
pub(crate) mod search;
pub(crate) mod summary;
pub(crate) mod tail;
pub(crate) mod writer_log;

pub(crate) use scan::{Meaning, Scan, Step, detail, meaning};
pub(crate) use summary::Told;
pub(crate) use tail::{Tail, Torn};
pub(crate) use writer_log::{Log, Words};

//! The entries of an open directory.

use fuser::FileType;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::sync::Arc;

/// An entry of a directory.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
}

/// The entries as they were when the program began to read.
pub(crate) struct Listing {
    pub(crate) id: u64,
    pub(crate) entries: Mutex<Option<Arc<Vec<Entry>>>>,
}

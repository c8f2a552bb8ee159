//! The parts of a kernel request: its caller, and a name in a directory.

use std::ffi::OsStr;

/// The process that makes or changes a file.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Permissions that its new files do not get, unless the directory decides on them.
    pub(crate) umask: u32,
}

/// A directory and a name in it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
}

//! Paths that lead to the very file of a descriptor, even if its name changes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// The file of a descriptor that is no directory.
pub(crate) fn path(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// The directory of a descriptor, for callers that follow no link at the end of a path.
pub(crate) fn directory(fd: &OwnedFd) -> PathBuf {
    path(fd).join(".")
}

/// The path of a file as users see it.
pub(crate) fn name(fd: &OwnedFd) -> String {
    std::fs::read_link(path(fd))
        .map_or_else(|_| "a removed file".into(), |path| path.display().to_string())
}

//! Errors of parts of containers.

use aggio_base::{Error, ErrorClass};
use std::path::Path;

/// The error for damaged content.
pub(crate) fn damaged(words: impl Into<String>) -> Error {
    Error::new(ErrorClass::Io, words).with_errno(libc::EIO)
}

/// The error that the operating system reported for `path`.
pub(crate) fn failed(call: &str, error: &std::io::Error, path: &Path) -> Error {
    at(Error::os(call, error), path)
}

/// The error, about the file `path`.
pub(crate) fn at(error: Error, path: &Path) -> Error {
    error.with_path(&path.display().to_string())
}

/// An error of this class, with the error number of the call that it stands for.
pub(crate) fn refused(
    (class, errno): (ErrorClass, i32),
    path: &Path,
    words: impl Into<String>,
) -> Error {
    at(Error::new(class, words).with_errno(errno), path)
}

/// The error for damaged content of the file `path`.
pub(crate) fn damaged_at(path: &Path, words: impl Into<String>) -> Error {
    at(damaged(words), path)
}

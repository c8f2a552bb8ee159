//! Errors of a set of files.

use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file of the set is not there.
    Missing,
    /// A file does not belong to the others.
    Mismatch,
    /// A file ends before its data do.
    Truncated,
    /// A file's bytes make no sense.
    Corrupt,
    /// The content of a file is not supported.
    Unsupported,
    /// The system refused, with this `errno`.
    System(i32),
}

/// An error, and the file that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file.
    pub file: String,
    /// The kind.
    pub kind: Kind,
    /// In words.
    pub what: String,
}

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(file: impl Into<String>, kind: Kind, what: impl Into<String>) -> Self {
        Error { file: file.into(), kind, what: what.into() }
    }

    pub(crate) fn corrupt(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(file, Kind::Corrupt, what)
    }

    pub(crate) fn system(file: impl Into<String>, why: &std::io::Error) -> Self {
        let kind = match (why.kind(), why.raw_os_error()) {
            (std::io::ErrorKind::NotFound, _) => Kind::Missing,
            (std::io::ErrorKind::UnexpectedEof, _) => Kind::Truncated,
            (_, errno) => Kind::System(errno.unwrap_or(0)),
        };
        let what = match kind {
            Kind::Missing => "missing".into(),
            Kind::Truncated => "ends before its data do".into(),
            _ => why.to_string(),
        };
        Self::new(file, kind, what)
    }

    /// The `errno` for callers of the system's functions: `EIO` if the system gave none.
    #[must_use]
    pub fn number(&self) -> i32 {
        match self.errno() {
            0 => crate::EIO,
            errno => errno,
        }
    }

    /// The system's number for it; zero if it has none.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self.kind {
            Kind::System(errno) => errno,
            _ => 0,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.file, self.what)
    }
}

impl std::error::Error for Error {}

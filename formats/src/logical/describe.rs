//! A description of the parts of a logical file, for people.

use std::ops::Range;

/// A file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Processes with data in it.
    pub blobs: u64,
    /// Its records.
    pub records: u64,
}

/// The written part of a decomposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Its name.
    pub name: String,
    /// The dimensions that are decomposed.
    pub dimensions: Vec<String>,
    /// Elements of these dimensions together.
    pub elements: u64,
    /// Elements that somebody wrote.
    pub written: u64,
    /// Requests in all files.
    pub requests: u64,
    /// Variables that use it.
    pub variables: Vec<String>,
    /// How many ranges of elements nobody wrote.
    pub gaps: u64,
    /// The first of them.
    pub first_gaps: Vec<Range<u64>>,
}

/// The parts of a logical file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The kind of set.
    pub kind: &'static str,
    /// Its files.
    pub files: Vec<FileFacts>,
    /// Processes that wrote it; zero if that is not known.
    pub processes: u64,
    /// Its decompositions.
    pub coverage: Vec<Coverage>,
    /// Problems that were allowed.
    pub notes: Vec<String>,
}

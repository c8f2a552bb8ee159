//! What a logical file consists of, for people.

use std::ops::Range;

/// A file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Processes whose data it holds.
    pub blobs: u64,
    /// Its records.
    pub records: u64,
}

/// What of a decomposition was written.
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

/// What a logical file consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// What kind of set it is.
    pub kind: &'static str,
    /// Its files.
    pub files: Vec<FileFacts>,
    /// Processes that wrote it; zero if that is not known.
    pub processes: u64,
    /// Its decompositions.
    pub coverage: Vec<Coverage>,
    /// What is not as it should be, and was allowed.
    pub notes: Vec<String>,
}

//! Hints that do not come from the application: files and environment variables.

use super::Origin;
use crate::complaint::Complaints;
use crate::pattern::Pattern;
use std::io;

/// One `key=value` from anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key as written.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// Where it stood; also its rank among other origins.
    pub origin: Origin,
}

/// Entries for the files that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which files.
    pub pattern: Pattern,
    /// What holds for them.
    pub entries: Vec<Entry>,
}

/// All hints that do not come from the application, read once per process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    rules: Vec<Rule>,
}

impl Sources {
    /// Reads `ROMIO_HINTS` (or `/etc/romio-hints`), `MPICH_MPIIO_HINTS` and `AGGIO_HINTS`.
    ///
    /// `variable` looks up an environment variable, `file` reads a whole file.
    pub fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        file: &dyn Fn(&str) -> io::Result<Vec<u8>>,
        complaints: &mut Complaints,
    ) -> Self {
        let _ = (variable, file, complaints);
        Self::default()
    }

    /// What holds for the file `path`, weakest first.
    pub fn entries_for<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.rules.iter().filter(|rule| rule.pattern.matches(path)).flat_map(|rule| &rule.entries)
    }
}

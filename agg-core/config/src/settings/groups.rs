//! Settings by subject.

use super::couple::{CoupleLink, CoupleRule};
use aggio_base::log::Level;

/// Files that programs exchange in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coupling {
    /// `AGGIO_COUPLE`: which files, and how.
    pub rules: Vec<CoupleRule>,
    /// Errors in rules, which void these rules; kept until they are reported.
    pub(super) faults: Vec<String>,
    /// `AGGIO_COUPLE_DIR`: where programs find each other; empty for the user's own place.
    pub dir: String,
    /// `AGGIO_COUPLE_LINK`: the transport between agents of several nodes.
    pub link: CoupleLink,
    /// `AGGIO_TEST_AGENT`: the program that is started as agent; empty if it is to be found.
    pub agent: String,
}

/// Messages for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// `AGGIO_LOG`: which messages are written.
    pub level: Level,
    /// `AGGIO_LOG=level,all`: messages of every rank, not of rank 0 alone.
    pub all: bool,
    /// `AGGIO_LOG_FILE`: where messages go; standard error if empty.
    pub file: String,
}

impl Default for Messages {
    fn default() -> Self {
        Self { level: Level::Warn, all: false, file: String::new() }
    }
}

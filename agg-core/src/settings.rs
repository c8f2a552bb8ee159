//! The environment variables that switch aggio: one table, read once per process.

use crate::log::Level;
use crate::pattern::Pattern;

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `AGGIO`: whether MPI-IO is served by aggio at all.
    pub on: bool,
    /// `AGGIO_INCLUDE`: only these files; empty means all.
    pub include: Vec<Pattern>,
    /// `AGGIO_EXCLUDE`: not these files.
    pub exclude: Vec<Pattern>,
    /// `AGGIO_LOG`: which messages are written.
    pub log_level: Level,
    /// `AGGIO_LOG=level,all`: messages of every rank, not of rank 0 alone.
    pub log_all: bool,
    /// `AGGIO_LOG_FILE`: where messages go; standard error if empty.
    pub log_file: String,
    /// `AGGIO_REPORT`: what is told about a file when it is closed.
    pub report: Report,
    /// `AGGIO_STRICT`: whether a bad setting or hint ends the program at its start.
    pub strict: bool,
    /// `MPICH_MPIIO_HINTS_DISPLAY` or `ROMIO_PRINT_HINTS`: the hints in force are logged at open.
    pub display_hints: bool,
}

/// What is told about a file when it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// Nothing.
    #[default]
    Off,
    /// A line for people.
    Line,
    /// A line of JSON.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            on: true,
            include: Vec::new(),
            exclude: Vec::new(),
            log_level: Level::Warn,
            log_all: false,
            log_file: String::new(),
            report: Report::Off,
            strict: false,
            display_hints: false,
        }
    }
}

impl Settings {
    /// Whether the file `path` is aggio's: MPI-IO on any other file is left to the MPI library.
    ///
    /// `path` is the name without a driver prefix, absolute or relative to the working directory.
    pub fn manages(&self, path: &str) -> bool {
        let included = self.include.is_empty() || self.include.iter().any(|p| p.matches(path));
        self.on && included && !self.exclude.iter().any(|p| p.matches(path))
    }
}

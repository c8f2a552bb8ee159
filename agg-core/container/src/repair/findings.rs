//! Options and results of a check.

use crate::errors::damaged_at;
use aggio_base::Result;
use std::path::Path;

/// Options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Whether the data of all frames is read and compared with its checksum.
    pub data: bool,
    /// Whether manifest, index and counter are made anew from the logs where they are wrong, and
    /// torn ends of logs cut off. The previous content is kept in files named `backup.*`.
    pub repair: bool,
    /// Whether, beyond that, intact frames behind damaged ones are taken over. The bytes of damaged
    /// frames are lost then: older bytes of the file, or zeros, appear in their place.
    pub salvage: bool,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong, but the user may want the information.
    Note,
    /// No data is lost, and a repair puts it right.
    Repairable,
    /// Data is lost or cannot be read.
    Damaged,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part, by its name in the container.
    pub part: String,
    /// The byte of the part, if one is known.
    pub place: Option<u64>,
    /// Description of the problem.
    pub words: String,
    /// How bad it is.
    pub severity: Severity,
}

/// The results of a check.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Everything that is not as it should be, part by part.
    pub problems: Vec<Problem>,
    /// Descriptions of the repairs that were made.
    pub repairs: Vec<String>,
    /// Number of logs.
    pub logs: u64,
    /// Number of intact frames.
    pub frames: u64,
    /// Bytes of all intact frames.
    pub bytes: u64,
}

impl Findings {
    /// The exit code of a command that checks: 0 if nothing is wrong, 1 if everything could be or
    /// was repaired, 4 if data is damaged.
    pub fn exit_code(&self) -> i32 {
        match self.problems.iter().map(|problem| problem.severity).max() {
            Some(Severity::Damaged) => 4,
            Some(Severity::Repairable) => 1,
            _ if !self.repairs.is_empty() => 1,
            _ => 0,
        }
    }

    /// Fails if anything is damaged.
    ///
    /// # Errors
    ///
    /// `EIO` that names the worst problem found in the container `path`.
    pub(crate) fn demand_undamaged(&self, path: &Path) -> Result<()> {
        let Some(worst) = self.problems.iter().max_by_key(|problem| problem.severity) else {
            return Ok(());
        };
        if worst.severity < Severity::Damaged {
            return Ok(());
        }
        let place = worst.place.map_or(String::new(), |place| format!(" at byte {place}"));
        let words = format!("{}{place}: {}", worst.part, worst.words);
        Err(damaged_at(path, words))
    }

    pub(crate) fn add(
        &mut self,
        severity: Severity,
        part: &str,
        place: Option<u64>,
        words: impl Into<String>,
    ) {
        self.problems.push(Problem { part: part.into(), place, words: words.into(), severity });
    }
}

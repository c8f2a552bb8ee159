//! Errors in the settings and hints of users: collected first, reported elsewhere.

use crate::error::{Error, ErrorClass, Result};
use crate::log::{self, Level};
use std::fmt;

/// One fault in one value, as a sentence that names the value and the accepted form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Where the value stood: a variable, a file, `MPI_Info`.
    pub source: String,
    /// The error.
    pub message: String,
    /// Whether `AGGIO_STRICT=1` makes it fatal. An unknown key of the application is not: the
    /// standard lets programs set any key (MPI-4.1, 14.2.8).
    pub strict: bool,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.message)
    }
}

/// Faults in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// A value that is malformed or out of bounds and was therefore ignored.
    pub fn value(&mut self, source: &str, key: &str, value: &str, accepted: &str) {
        let message = format!("{key}={value:?} is ignored; accepted: {accepted}");
        self.0.push(Diagnostic { source: source.into(), message, strict: true });
    }

    /// Reports an unknown name that is ignored; `nearest` is a known name that may have been meant.
    pub fn unknown(&mut self, source: &str, what: &str, name: &str, nearest: Option<&str>) {
        let mut message = format!("unknown {what} {name:?} is ignored");
        if let Some(nearest) = nearest {
            message.push_str(&format!("; did you mean {nearest}?"));
        }
        let strict = source != "MPI_Info";
        self.0.push(Diagnostic { source: source.into(), message, strict });
    }

    /// Any other fault.
    pub fn text(&mut self, source: &str, message: impl Into<String>) {
        self.0.push(Diagnostic { source: source.into(), message: message.into(), strict: true });
    }

    /// Writes every fault that was not written before in this process, on the ranks that write
    /// messages.
    ///
    /// # Errors
    /// The first fault, if `strict` (`AGGIO_STRICT=1`) and there is one that strictness concerns.
    pub fn report(&self, strict: bool) -> Result<()> {
        for complaint in &self.0 {
            log::once(Level::Warn, &complaint.to_string());
        }
        match self.0.iter().find(|complaint| strict && complaint.strict) {
            Some(complaint) => Err(Error::new(
                ErrorClass::InfoValue,
                format!("{complaint} (fatal because of AGGIO_STRICT)"),
            )),
            None => Ok(()),
        }
    }
}

//! The findings of the suite.

use std::fmt;

/// A clause that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The clause of the contract.
    pub clause: &'static str,
    /// The deviation of the driver.
    pub why: String,
}

/// The clauses that were checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Those that hold.
    pub held: Vec<&'static str>,
    /// Those that do not.
    pub broken: Vec<Broken>,
    /// Those about something that the driver does not offer.
    pub not_offered: Vec<&'static str>,
}

/// How the check of a clause ended.
pub(crate) enum Verdict {
    Holds,
    NotOffered,
}

impl Report {
    pub(crate) fn add(&mut self, clause: &'static str, result: Result<Verdict, String>) {
        match result {
            Ok(Verdict::Holds) => self.held.push(clause),
            Ok(Verdict::NotOffered) => self.not_offered.push(clause),
            Err(why) => self.broken.push(Broken { clause, why }),
        }
    }

    /// Ends with a list of everything that does not hold, if there is anything.
    ///
    /// # Panics
    /// If a clause is broken.
    pub fn assert_holds(&self) {
        assert!(self.broken.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Broken { clause, why } in &self.broken {
            writeln!(f, "broken: {clause}: {why}")?;
        }
        for clause in &self.not_offered {
            writeln!(f, "not offered: {clause}")?;
        }
        write!(f, "{} clauses hold", self.held.len())
    }
}

//! The contract of a storage driver, as a suite of checks.
//!
//! A [`Driver`] is correct if [`check`] finds nothing broken in it. The suite uses a driver only
//! through [`Subject`], which opens and deletes files. It writes and reads real files through it,
//! from one thread and from several, and compares every byte with a model in memory.
//!
//! ```text
//! check(&subject).assert_holds();            // a driver that reads and writes
//! check_reading(&subject, "name", &bytes);   // one that only reads existing files
//! ```
//!
//! `tests/memory.rs` is a whole driver of about two hundred lines that holds the contract.
#![doc = include_str!("../../../docs/drivers.md")]
//!
//! [`Driver`]: agg_core::driver::Driver

mod clauses;
mod report;
mod subject;

pub use report::{Broken, Report};
pub use subject::Subject;

use clauses::{CLAUSES, READING};

/// Checks the whole contract on a driver that reads and writes. Files that it makes have names
/// that begin with `clause-`; it deletes them.
pub fn check(subject: &dyn Subject) -> Report {
    let mut report = Report::default();
    for (number, clause) in CLAUSES.iter().enumerate() {
        let name = format!("clause-{number}");
        report.add(clause.name, (clause.check)(subject, &name));
        // A file that the clause has deleted, or never made, is no fault of the driver.
        let _ = subject.delete(&name);
    }
    report
}

/// Checks the part of the contract that concerns reading, on the file `name` with content `bytes`.
/// Two readers and several threads read it; nothing is written.
pub fn check_reading(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Report {
    let mut report = Report::default();
    for clause in READING {
        report.add(clause.name, (clause.check)(subject, name, bytes));
    }
    report
}

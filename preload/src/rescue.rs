//! What is done with open files when a job ends without closing them.

use crate::handles;
use agg_core::log::{self, Level};

/// Before the job is ended by force: what waits reaches the files, or somebody hears that it does
/// not.
pub fn all() {
    for file in handles::all() {
        if let Err(error) = file.engine.rescue() {
            log::write(Level::Error, format_args!("{error}"));
        }
    }
}

/// At the end of a process that has not ended MPI: tells what was done with the files that are
/// open.
pub fn report() {
    for file in handles::all() {
        file.engine.report_alone();
    }
}

//! Opening and closing one file many times.

use crate::Job;
use crate::case::{Outcome, announce};
use crate::clock::timed;
use crate::file::{MpiFile, Operation};
use crate::limit::{self, Before};
use std::fs::OpenOptions;

/// The limit is a plain open and close by every rank.
pub(crate) fn run(
    text: &str,
    operation: Operation,
    count: u64,
    job: &Job,
) -> Result<Outcome, String> {
    let path = job.path("data");
    limit::make(&path, 0, Before::New, job)?;
    let limit = timed(job, || {
        for _ in 0..count {
            let mut options = OpenOptions::new();
            options.read(true).write(operation == Operation::Write);
            options.open(&path).map_err(|why| format!("{path}: {why}"))?;
        }
        Ok(())
    })?;
    announce(job, text);
    let seconds = timed(job, || {
        for _ in 0..count {
            MpiFile::open(&path, operation)?.close()?;
        }
        Ok(())
    })?;
    limit::remove(&path, job);
    Ok(Outcome { seconds, limit, hidden: None, requests: None })
}

//! The most that this machine gives: each rank moves its bytes by one plain system call, contiguous
//! and disjoint.

use crate::Job;
use crate::bytes;
use crate::clock::{meet, timed};
use crate::file::Operation;
use mpi::collective::SystemOperation;
use mpi::traits::*;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

/// The state of a file before a measurement.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Before {
    /// Empty.
    New,
    /// Of its final size, but without bytes.
    Sized,
    /// Bytes that a write must not leave, and must leave in holes.
    Old,
    /// The bytes that a read expects.
    Written,
}

impl Before {
    pub(crate) fn of(operation: Operation, has_holes: bool, job: &Job) -> Self {
        match operation {
            Operation::Read => Before::Written,
            Operation::Write if has_holes => Before::Old,
            Operation::Write if job.presized => Before::Sized,
            Operation::Write => Before::New,
        }
    }
}

/// Makes the file anew, all ranks together.
pub(crate) fn make(path: &str, span: u64, before: Before, job: &Job) -> Result<(), String> {
    if job.rank() == 0 {
        let _ = std::fs::remove_file(path);
        let complain = |why: std::io::Error| format!("{path}: {why}");
        let file = File::create(path).map_err(complain)?;
        if before != Before::New {
            file.set_len(span).map_err(complain)?;
        }
    }
    meet(job);
    if matches!(before, Before::Old | Before::Written) {
        bytes::prepare(path, span, job.rank(), job.ranks(), before == Before::Written)?;
    }
    meet(job);
    Ok(())
}

/// Seconds that all ranks need for their `data`; for reads its contents are lost.
pub(crate) fn measure(
    operation: Operation,
    before: Before,
    data: &mut [u8],
    job: &Job,
) -> Result<f64, String> {
    let path = job.path("limit");
    let (offset, total) = place(data.len() as u64, job);
    make(&path, total, before, job)?;
    let complain = |why: std::io::Error| format!("{path}: {why}");
    let file = OpenOptions::new()
        .read(true)
        .write(operation == Operation::Write)
        .open(&path)
        .map_err(complain)?;
    let seconds = timed(job, || {
        match operation {
            Operation::Write => file.write_all_at(data, offset),
            Operation::Read => file.read_exact_at(data, offset),
        }
        .map_err(complain)
    })?;
    remove(&path, job);
    Ok(seconds)
}

/// Where this rank's bytes begin, and how many all ranks have.
fn place(bytes: u64, job: &Job) -> (u64, u64) {
    let (mut end, mut total) = (0u64, 0u64);
    job.world.scan_into(&bytes, &mut end, SystemOperation::sum());
    job.world.all_reduce_into(&bytes, &mut total, SystemOperation::sum());
    (end - bytes, total)
}

/// Removes a file of the job when all ranks are done with it.
pub(crate) fn remove(path: &str, job: &Job) {
    meet(job);
    if job.rank() == 0 {
        let _ = std::fs::remove_file(path);
    }
}

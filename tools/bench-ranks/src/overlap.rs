//! How much of the shorter of I/O and computation a nonblocking collective call hides.

use crate::Job;
use crate::clock::timed;
use crate::file::MpiFile;
use crate::transfer::{Requests, Transfer};
use mpi::collective::SystemOperation;
use mpi::traits::*;
use std::hint::black_box;

/// Slices of a computation; between them the program may look after its requests.
const SLICES: u64 = 100;

/// A number of steps that takes a little time, to learn the speed of computation.
const PROBE_STEPS: u64 = 2_000_000;

/// Arithmetic that nothing can shorten.
fn compute(steps: u64) {
    let mut value = 1.000_000_1_f64;
    for _ in 0..steps {
        value = black_box(value.mul_add(1.000_000_01, 1e-9));
    }
}

/// Steps of computation that take about `seconds` when all ranks compute at once.
fn steps_for(seconds: f64, job: &Job) -> Result<u64, String> {
    let probe = timed(job, || {
        compute(PROBE_STEPS);
        Ok(())
    })?;
    let mine = (PROBE_STEPS as f64 * seconds / probe).max(1.0) as u64;
    let mut steps = 0;
    job.world.all_reduce_into(&mine, &mut steps, SystemOperation::max());
    Ok(steps)
}

/// A computation about as long as the I/O was, and its true seconds.
pub(crate) struct Computation {
    slice: u64,
    pub(crate) seconds: f64,
}

impl Computation {
    pub(crate) fn as_long_as(seconds: f64, job: &Job) -> Result<Self, String> {
        let slice = steps_for(seconds, job)? / SLICES + 1;
        let seconds = timed(job, || {
            (0..SLICES).for_each(|_| compute(slice));
            Ok(())
        })?;
        Ok(Computation { slice, seconds })
    }

    /// Seconds of the calls and the computation together.
    pub(crate) fn beside(
        &self,
        transfer: &mut Transfer,
        file: &mut MpiFile,
        with_tests: bool,
        job: &Job,
    ) -> Result<f64, String> {
        let meanwhile = |requests: &mut Requests| {
            for _ in 0..SLICES {
                compute(self.slice);
                if with_tests {
                    requests.test();
                }
            }
        };
        timed(job, || transfer.nonblocking(file, meanwhile))
    }

    /// 1 if the shorter of the two costs nothing, 0 or less if nothing is gained.
    pub(crate) fn hidden(&self, alone: f64, together: f64) -> f64 {
        (alone + self.seconds - together) / alone.min(self.seconds)
    }
}

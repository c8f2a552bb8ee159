//! Time that several processes of one machine share, and waiting that costs the others nothing.

use crate::Job;
use mpi::collective::SystemOperation;
use mpi::traits::*;
use std::time::Duration;

/// How long a waiting rank sleeps before it looks again.
const NAP: Duration = Duration::from_micros(50);

/// Seconds of a clock that all processes of the machine read alike.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the answer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Waits for all ranks asleep: the busy waiting of an MPI library's barrier takes the processor
/// from ranks still at work.
pub(crate) fn meet(job: &Job) {
    let mut request = job.world.immediate_barrier();
    while let Err(pending) = request.test() {
        request = pending;
        std::thread::sleep(NAP);
    }
}

/// Seconds from when the first rank began until the last one was done.
pub(crate) fn timed(job: &Job, work: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    meet(job);
    let start = now();
    work()?;
    let end = now();
    meet(job);
    let (mut first, mut last) = (0.0, 0.0);
    job.world.all_reduce_into(&start, &mut first, SystemOperation::min());
    job.world.all_reduce_into(&end, &mut last, SystemOperation::max());
    Ok(last - first)
}

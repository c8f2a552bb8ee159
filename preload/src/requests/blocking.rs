//! MPI calls that block, while file operations are pending: the operations must proceed meanwhile,
//! because another rank may need our part of them before it can do the work that this call waits
//! for.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::pending::{any_work, may_need_turns, progress};
use crate::progress::{advances, rest_until_told};
use crate::transport::lonely;
use crate::{mpi, room};
use agg_core::{meeting, workers};
use libc::c_int;
use std::time::{Duration, Instant};

/// How long a collective call waits for file operations that nobody helps along.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// The same while all ranks are at one of them: it ends with us, unless a rank has given up before.
const LONG_PATIENCE: Duration = Duration::from_secs(10);

/// The most that the time between two polls counts: if ranks hardly get a processor, the others do
/// not either.
const GLANCE: Duration = Duration::from_millis(1);

/// Starts a call by its nonblocking twin and lets file operations proceed until it has ended.
/// Point-to-point messages match whichever of the two is called.
///
/// # Safety
/// `start` stores a request that is valid until it has ended; `status` is a status or ignored.
pub unsafe fn by_twin(
    abi: &'static Abi,
    status: Opaque,
    start: impl FnOnce(Opaque) -> c_int,
) -> c_int {
    let mut code = 0;
    let started = room::new_handle(abi, |place| {
        code = start(place);
        Ok(())
    });
    let Ok(mut request) = started else { return code };
    if code != 0 {
        return code;
    }
    let place: Opaque = (&raw mut request).cast();
    // SAFETY: the variable holds the request, in a form that this writes back first; the request is
    // active until the library says otherwise.
    unsafe {
        abi.store(place, 0, request);
        by_asking(|flag| mpi::Test(place, flag, status))
    }
}

/// As [`by_twin`] for two operations at a time; `status` is that of the first.
///
/// # Safety
/// As there.
pub unsafe fn by_twins(
    abi: &'static Abi,
    status: Opaque,
    first: impl FnOnce(Opaque) -> c_int,
    second: impl FnOnce(Opaque) -> c_int,
) -> c_int {
    let mut requests = [0usize; 2];
    let place: Opaque = (&raw mut requests).cast();
    // SAFETY: there is room for two requests, which are tested until they have ended.
    unsafe {
        abi.store(place, 0, abi.handles.request_null);
        let code = first(place);
        if code != 0 {
            return code;
        }
        let sent = by_twin(abi, ignored(abi), second);
        let mut received = 0;
        by_asking(|flag| {
            received = mpi::Test(place, flag, status);
            received
        });
        if sent != 0 { sent } else { received }
    }
}

/// The value for a status that is ignored.
pub fn ignored(abi: &Abi) -> Opaque {
    abi.constants.status_ignore as usize as Opaque
}

/// Lets file operations proceed and repeats `ask` in turn, until it fails or sets its flag.
pub fn by_asking(mut ask: impl FnMut(&mut c_int) -> c_int) -> c_int {
    let (mut flag, mut waits) = (0, 0u32);
    loop {
        let told = workers::events();
        progress();
        let code = ask(&mut flag);
        if code != 0 || flag != 0 {
            return code;
        }
        rest_until_told(told, waits);
        waits = waits.saturating_add(1);
    }
}

/// Before a collective call: lets file operations end, but for those that workers end by
/// themselves.
///
/// A blocking collective call matches no nonblocking one on other ranks, so a twin is no way out,
/// and once inside nothing proceeds. Ranks that are at the same operations end them together with
/// us. If no message arrives for a while, the others may be waiting in the collective call, which
/// then must go first.
pub fn before_collective(_: &Abi) {
    if !any_work() {
        return;
    }
    let advanced = || (advances(), workers::events());
    let (mut seen, mut looked) = (advanced(), Instant::now());
    let (mut vain, mut waits) = (Duration::ZERO, 0u32);
    loop {
        let told = workers::events();
        progress();
        if !may_need_turns() {
            return;
        }
        lonely::poke();
        let now = Instant::now();
        vain += (now - looked).min(GLANCE);
        looked = now;
        let patience = if meeting::complete() > 0 { LONG_PATIENCE } else { PATIENCE };
        if advanced() != seen {
            (seen, vain, waits) = (advanced(), Duration::ZERO, 0);
        } else if vain > patience {
            return;
        }
        rest_until_told(told, waits);
        waits = waits.saturating_add(1);
    }
}

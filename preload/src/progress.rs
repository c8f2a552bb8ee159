//! Driving engine operations to their end.
//!
//! A thread that waits here also advances all pending nonblocking operations: another rank may need
//! our part of one of them before it can do the work that we wait for.

use crate::pending;
use crate::transport::lonely;
use agg_core::task::{self, Sleep};
use agg_core::workers;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Polls with a mere yield between them, so that a rank of the same processor gets on; then come
/// sleeps.
const YIELDS: u32 = 256;
/// First and longest sleep. Ranks may outnumber processors, so a waiting one must not spin.
const SHORTEST: Duration = Duration::from_micros(5);
const LONGEST: Duration = Duration::from_micros(100);

/// Polls before a rank sleeps that another one of its node will wake: a call that all ranks make at
/// the same time ends meanwhile, and waking a sleeper would take longer than the call.
const PATIENT: u32 = 64;

/// First sleep of a rank that another one of its node will wake, and how many times as long the
/// longest is.
const SHORTEST_NAP: Duration = Duration::from_micros(200);
const LONGEST_NAP: u32 = 10;
/// The same where ranks of other nodes may need this one's MPI library meanwhile.
const SHORTEST_DOZE: Duration = Duration::from_micros(50);
const LONGEST_DOZE: u32 = 20;

/// First rest of a thread that a worker will wake, and how many times as long the longest is:
/// messages of the program's proceed in between.
const SHORTEST_REST: Duration = Duration::from_micros(20);
const LONGEST_REST: u32 = 10;

/// Counts messages that have arrived: evidence that the ranks get on.
static ADVANCED: AtomicU64 = AtomicU64::new(0);

/// Runs `future` to its end on the calling thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    agg_core::task::block_on(future, idle)
}

/// One round of a waiting thread, after `waits` polls in vain.
pub fn idle(waits: u32) {
    let sleep = task::take_sleep();
    pending::progress();
    if waits >= PATIENT {
        // Another rank may wait for MPI on this one in any case.
        lonely::poke();
    }
    match sleep {
        Some(sleep) if waits >= PATIENT && !pending::needs_turns() => nap(sleep, waits - PATIENT),
        _ => rest(waits),
    }
}

/// Sleeps until another rank of the node announces something; wakes up now and then all the same,
/// since a rank that waits here may be the only one that can bring a message forward.
fn nap(sleep: Sleep, naps: u32) {
    let (shortest, longest) = match sleep.is_among_nodes() {
        true => (SHORTEST_DOZE, LONGEST_DOZE),
        false => (SHORTEST_NAP, LONGEST_NAP),
    };
    sleep.wait(shortest * naps.clamp(1, longest));
}

/// Leaves the processor to others, the longer the more often it was in vain.
pub fn rest(waits: u32) {
    if waits < YIELDS {
        std::thread::yield_now();
    } else {
        let grown = SHORTEST * (1 + (waits - YIELDS) / 8);
        std::thread::sleep(grown.min(LONGEST));
    }
}

/// As [`rest`], for a thread that also waits for events of workers; `told` is the number of
/// [events](workers::events) before it looked.
pub fn rest_until_told(told: u32, waits: u32) {
    if waits < YIELDS || pending::needs_turns() {
        rest(waits);
    } else {
        workers::rest(told, SHORTEST_REST * (waits - YIELDS + 1).min(LONGEST_REST));
    }
}

/// Notes that a message has arrived.
pub fn advanced() {
    ADVANCED.fetch_add(1, Ordering::Relaxed);
}

/// The number of messages that have arrived.
pub fn advances() -> u64 {
    ADVANCED.load(Ordering::Relaxed)
}

//! Whether this library serves the process at all.

use crate::abi::{self, Abi};
use crate::config;
use std::sync::atomic::{AtomicU8, Ordering};

const UNDECIDED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The MPI of this process if its files are ours to serve; `None` if every call is to go to the
/// real library.
#[inline]
pub fn abi() -> Option<&'static Abi> {
    match STATE.load(Ordering::Relaxed) {
        ON => abi::get(),
        OFF => None,
        _ => decide(),
    }
}

/// Decides at the first MPI call. That no MPI was found is not remembered.
#[cold]
fn decide() -> Option<&'static Abi> {
    if config::is_plainly_off() {
        switch_off();
        return None;
    }
    let abi = abi::get()?;
    if !config::get().settings.on {
        switch_off();
        return None;
    }
    STATE.store(ON, Ordering::Relaxed);
    Some(abi)
}

/// For good: the user does not want it, or this MPI cannot be served.
pub fn switch_off() {
    STATE.store(OFF, Ordering::Relaxed);
}

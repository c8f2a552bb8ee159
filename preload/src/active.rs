//! Whether this library serves the process at all.

use crate::abi::{self, Abi};
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
    if is_switched_off() {
        STATE.store(OFF, Ordering::Relaxed);
        return None;
    }
    match abi::get() {
        Some(abi) => {
            STATE.store(ON, Ordering::Relaxed);
            Some(abi)
        }
        None => None,
    }
}

/// For good: this MPI cannot be served.
pub fn switch_off() {
    STATE.store(OFF, Ordering::Relaxed);
}

fn is_switched_off() -> bool {
    std::env::var_os("AGGIO").is_some_and(|value| value == "off" || value == "0")
}

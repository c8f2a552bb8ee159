//! The communicator of this process alone.

use super::endless::Endless;
use super::private::Private;
use crate::abi::Abi;
use agg_core::{Error, ErrorClass, Result};
use std::sync::{Mutex, PoisonError};

/// A communicator of this process alone, for requests to the library that may fail; made at the
/// first open.
struct Lonely {
    /// Before the communicator that it needs. `None` until this process shares a file with others:
    /// MPICH 4.0 crashes when a session of one rank looks at the network.
    endless: Option<Endless>,
    private: Private,
}

static LONELY: Mutex<Option<Lonely>> = Mutex::new(None);

/// Makes it, unless there is one, from a communicator of the program.
///
/// # Errors
/// If MPI refuses it.
pub(super) fn remember(abi: &'static Abi, comm: usize, rank: usize, size: usize) -> Result<()> {
    let mut lonely = LONELY.lock().unwrap_or_else(PoisonError::into_inner);
    if lonely.is_none() {
        // MPICH 4.0 crashes when a communicator of one rank is made from a group in a session.
        let own =
            if size == 1 { Private::split(abi, comm) } else { Private::alone(abi, comm, rank) };
        *lonely = Some(Lonely { endless: None, private: own? });
    }
    if let Some(lonely) = &mut *lonely
        && lonely.endless.is_none()
        && size > 1
    {
        lonely.endless = Some(Endless::begin(abi, lonely.private.comm)?);
    }
    Ok(())
}

/// A communicator of this process alone, on which errors return; there is one while files are open.
pub(crate) fn communicator() -> Result<usize> {
    let lonely = LONELY.lock().unwrap_or_else(PoisonError::into_inner);
    let none = || Error::new(ErrorClass::Intern, "no private communicator");
    lonely.as_ref().map(|lonely| lonely.private.comm).ok_or_else(none)
}

/// Lets the MPI library get on: with messages of the program, with those of other files, with
/// answers to one-sided operations of other ranks.
pub(crate) fn poke() {
    // If another thread holds the lock, it does the work.
    let Ok(mut lonely) = LONELY.try_lock() else { return };
    if let Some(endless) = lonely.as_mut().and_then(|lonely| lonely.endless.as_mut()) {
        let _ = endless.ask();
    }
}

/// Frees it.
pub(super) fn forget() {
    drop(LONELY.lock().unwrap_or_else(PoisonError::into_inner).take());
}

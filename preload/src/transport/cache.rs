//! Transports kept with the program's communicators, so that only the first open on a communicator
//! pays for a private communicator, shared memory, and the first exchange of information.
//!
//! An open file keeps its transport alive, so the program may free the communicator before it
//! closes the file. When MPI ends, communicators of the program may be left over; our parts of them
//! are freed before.

use super::ranks::MpiTransport;
use crate::keyval::{Key, Object};
use agg_core::transport::Transport;
use agg_core::{Error, ErrorClass, Result, group};
use std::sync::{Arc, Mutex, PoisonError, Weak};

static KEY: Key<Arc<MpiTransport>> = Key::new(Object::Comm);

/// All transports that were made and may be alive.
static MADE: Mutex<Vec<Weak<MpiTransport>>> = Mutex::new(Vec::new());

/// The transport of `comm`, if one was made; the answer is the same on all its ranks.
pub(super) fn find(comm: usize) -> Option<Arc<MpiTransport>> {
    KEY.with(comm, Arc::clone)
}

/// Keeps `transport` with `comm`, on all ranks or on none; collective.
///
/// # Errors
/// The same on every rank: `Intern` if MPI does not take the attribute.
pub(super) async fn keep(comm: usize, transport: &Arc<MpiTransport>) -> Result<()> {
    let refused = |_| Error::new(ErrorClass::Intern, "the MPI library refuses an attribute");
    let kept = KEY.set(comm, transport.clone()).map_err(refused);
    let tags = transport.lanes().opening().next();
    group::agree(&**transport, tags.tag(0), kept).await.inspect_err(|_| KEY.remove(comm))
}

/// Remembers a new transport until it is freed.
pub(super) fn remember(transport: &Arc<MpiTransport>) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.retain(|one| one.strong_count() > 0);
    made.push(Arc::downgrade(transport));
}

/// Frees the MPI objects of all transports. The order is the same on all ranks, because windows are
/// freed together.
pub(super) fn free_all() {
    let made = std::mem::take(&mut *MADE.lock().unwrap_or_else(PoisonError::into_inner));
    let mut alive: Vec<_> = made.iter().filter_map(Weak::upgrade).collect();
    alive.sort_by(|a, b| a.meeting().cmp(b.meeting()));
    for transport in alive {
        transport.free();
    }
}

//! The shared file pointer of ranks on several nodes: a word of rank 0 that all reach by MPI's
//! one-sided operations.

use super::{Private, is_finalized};
use crate::abi::Abi;
use crate::entry::Opaque;
use crate::{mpi, room};
use agg_core::transport::{LockGuard, SharedState};
use agg_core::{Error, ErrorClass, Extent, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes the word; collective over the communicator.
pub(super) fn share(private: Arc<Private>, rank: usize) -> Result<Arc<dyn SharedState>> {
    let abi = private.abi;
    let size = if rank == 0 { size_of::<i64>() as i64 } else { 0 };
    let mut base: *mut i64 = std::ptr::null_mut();
    let place: Opaque = (&raw mut base).cast();
    let (info, comm) = (abi.handles.info_null, private.comm);
    // SAFETY: MPI stores the address of `size` bytes and a window handle; rank 0 sets its word
    // before any other rank can reach the window, because the barrier comes after.
    let window = unsafe {
        let window = room::new_handle(abi, |window| {
            mpi::check(mpi::Win_allocate(size, 8, info, comm, place, window))
        })?;
        mpi::check(mpi::Win_set_errhandler(window, abi.handles.errors_return))?;
        mpi::check(mpi::Win_lock_all(abi.constants.mode_nocheck, window))?;
        window
    };
    let shared = Window { private, window, order: Mutex::new(()) };
    if rank == 0 {
        shared.store(0)?;
    }
    // SAFETY: all ranks of the communicator are here.
    unsafe { mpi::check(mpi::Barrier(comm))? };
    Ok(Arc::new(shared))
}

/// A word at rank 0.
struct Window {
    private: Arc<Private>,
    window: usize,
    /// One operation at a time: a flush completes whatever the window has under way.
    order: Mutex<()>,
}

impl Window {
    fn abi(&self) -> &'static Abi {
        self.private.abi
    }

    /// Combines `value` with the word by `op`; returns the old word.
    fn exchange(&self, value: i64, op: usize) -> Result<i64> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut value, mut old) = (value, 0i64);
        let int64 = self.abi().handles.int64_t;
        let origin: Opaque = (&raw mut value).cast();
        let result: Opaque = (&raw mut old).cast();
        // SAFETY: both variables live until the flush has completed the operation.
        unsafe {
            mpi::check(mpi::Fetch_and_op(origin, result, int64, 0, 0, op, self.window))?;
            mpi::check(mpi::Win_flush(0, self.window))?;
        }
        Ok(old)
    }
}

impl SharedState for Window {
    fn fetch_add(&self, delta: i64) -> Result<i64> {
        self.exchange(delta, self.abi().handles.sum)
    }

    fn load(&self) -> Result<i64> {
        self.exchange(0, self.abi().handles.no_op)
    }

    fn store(&self, value: i64) -> Result<()> {
        self.exchange(value, self.abi().handles.replace).map(|_| ())
    }

    fn try_lock(&self, extent: Extent, _: bool) -> Result<Option<Box<dyn LockGuard>>> {
        let text = format!("no locks between nodes (wanted bytes {extent})");
        Err(Error::new(ErrorClass::UnsupportedOperation, text))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if is_finalized() {
            return;
        }
        let handle = self.window;
        // SAFETY: the window is ours, and no operation is under way. All ranks come here when they
        // close the file.
        unsafe {
            let _ = mpi::check(mpi::Win_unlock_all(handle));
            let _ = room::with_handle(self.abi(), handle, |place| mpi::check(mpi::Win_free(place)));
        }
    }
}

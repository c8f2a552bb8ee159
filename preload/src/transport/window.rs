//! The shared file pointers of ranks on several nodes: words of rank 0 that all reach by MPI's
//! one-sided operations, some for every lane.

use super::private::{Private, is_finalized};
use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::{mpi, room};
use agg_core::transport::{POINTERS, SharedPointer};
use agg_core::{Result, lanes};
use libc::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a word.
const WORD: c_int = size_of::<i64>() as c_int;

/// Words at rank 0. They have any value at first: rank 0 sets that of a file when it is opened.
pub(super) struct Window {
    private: Arc<Private>,
    window: usize,
    freed: AtomicBool,
    /// One operation at a time: a flush completes all pending operations of the window.
    order: Mutex<()>,
}

impl Window {
    /// Makes the words; collective over the communicator.
    pub(super) fn allocate(private: Arc<Private>, rank: usize) -> Result<Self> {
        let abi = private.abi;
        let words = i64::from(lanes::COUNT) * i64::from(POINTERS);
        let size = if rank == 0 { i64::from(WORD) * words } else { 0 };
        let mut base: *mut i64 = std::ptr::null_mut();
        let place: Opaque = (&raw mut base).cast();
        let (info, comm) = (abi.handles.info_null, private.comm);
        // SAFETY: MPI stores the address of `size` bytes and a window handle.
        let window = unsafe {
            let window = room::new_handle(abi, |window| {
                mpi::check(mpi::Win_allocate(size, WORD, info, comm, place, window))
            })?;
            mpi::check(mpi::Win_set_errhandler(window, abi.handles.errors_return))?;
            mpi::check(mpi::Win_lock_all(abi.constants.mode_nocheck, window))?;
            window
        };
        Ok(Self { private, window, freed: AtomicBool::new(false), order: Mutex::new(()) })
    }

    fn abi(&self) -> &'static Abi {
        self.private.abi
    }

    /// Combines `value` with a word of `lane` by `op`; returns the old word.
    fn exchange(&self, (lane, number): (u32, u32), value: i64, op: usize) -> Result<i64> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut value, mut old) = (value, 0i64);
        let int64 = self.abi().handles.int64_t;
        let origin: Opaque = (&raw mut value).cast();
        let result: Opaque = (&raw mut old).cast();
        let place = i64::from(lane % lanes::COUNT) * i64::from(POINTERS) + i64::from(number);
        // SAFETY: both variables live until the flush has completed the operation.
        unsafe {
            mpi::check(mpi::Fetch_and_op(origin, result, int64, 0, place, op, self.window))?;
            mpi::check(mpi::Win_flush(0, self.window))?;
        }
        Ok(old)
    }

    /// Frees it, once; all ranks come here together.
    pub(super) fn free(&self) {
        if self.freed.swap(true, Ordering::AcqRel) || is_finalized() {
            return;
        }
        let handle = self.window;
        // SAFETY: the window is ours, and no operation is under way.
        unsafe {
            let _ = mpi::check(mpi::Win_unlock_all(handle));
            let _ = room::with_handle(self.abi(), handle, |place| mpi::check(mpi::Win_free(place)));
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.free();
    }
}

/// The shared file pointers of the file in one lane.
pub(super) struct WindowPointer {
    window: Arc<Window>,
    lane: u32,
}

impl WindowPointer {
    /// The words of `lane`.
    pub(super) fn new(window: Arc<Window>, lane: u32) -> Self {
        Self { window, lane }
    }

    fn exchange(&self, number: u32, value: i64, op: usize) -> Result<i64> {
        self.window.exchange((self.lane, number), value, op)
    }
}

impl SharedPointer for WindowPointer {
    fn fetch_add(&self, number: u32, delta: i64) -> Result<i64> {
        self.exchange(number, delta, self.window.abi().handles.sum)
    }

    fn load(&self, number: u32) -> Result<i64> {
        self.exchange(number, 0, self.window.abi().handles.no_op)
    }

    fn store(&self, number: u32, value: i64) -> Result<()> {
        self.exchange(number, value, self.window.abi().handles.replace).map(|_| ())
    }
}

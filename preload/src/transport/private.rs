//! Communicators of this library's own.

use crate::abi::Abi;
use crate::{mpi, room};
use agg_core::Result;
use libc::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// A communicator of ours that is freed with its last user, or earlier when MPI ends.
pub(crate) struct Private {
    pub(super) abi: &'static Abi,
    pub(super) comm: usize,
    freed: AtomicBool,
}

impl Private {
    /// The ranks of `parent` in the same order. A split, unlike a duplicate, calls no copy function
    /// of the program's attributes.
    pub(super) fn split(abi: &'static Abi, parent: usize) -> Result<Self> {
        // SAFETY: `place` has room for a handle.
        let comm = room::new_handle(abi, |place| unsafe {
            mpi::check(mpi::Comm_split(parent, 0, 0, place))
        })?;
        Self::take(abi, comm)
    }

    /// This process alone, taken from `parent`; communicates with nobody.
    pub(super) fn alone(abi: &'static Abi, parent: usize, rank: usize) -> Result<Self> {
        let rank = c_int::try_from(rank).unwrap_or(0);
        // SAFETY: every `place` has room for a handle, and `rank` is a rank of the group.
        unsafe {
            let all = room::new_handle(abi, |place| mpi::check(mpi::Comm_group(parent, place)))?;
            let one = room::new_handle(abi, |place| {
                mpi::check(mpi::Group_incl(all, 1, &raw const rank, place))
            })?;
            let comm = room::new_handle(abi, |place| {
                mpi::check(mpi::Comm_create_group(parent, one, 0, place))
            });
            for group in [one, all] {
                room::with_handle(abi, group, |place| mpi::check(mpi::Group_free(place)))?;
            }
            Self::take(abi, comm?)
        }
    }

    pub(super) fn take(abi: &'static Abi, comm: usize) -> Result<Self> {
        let private = Self { abi, comm, freed: AtomicBool::new(false) };
        // SAFETY: both handles are valid.
        unsafe { mpi::check(mpi::Comm_set_errhandler(comm, abi.handles.errors_return))? };
        Ok(private)
    }
}

impl Private {
    /// Frees it, once. Nobody communicates any more.
    pub(super) fn free(&self) {
        if self.freed.swap(true, Ordering::AcqRel) || is_finalized() {
            return;
        }
        // SAFETY: the communicator is ours; after a failure it is leaked, no more.
        let _ = room::with_handle(self.abi, self.comm, |place| unsafe {
            mpi::check(mpi::Comm_free(place))
        });
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.free();
    }
}

/// Whether MPI has been shut down.
pub(super) fn is_finalized() -> bool {
    let mut flag: c_int = 0;
    // SAFETY: the flag outlives the call, which is legal at any time.
    unsafe { mpi::Finalized(&raw mut flag) };
    flag != 0
}

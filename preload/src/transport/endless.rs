//! A request that does not end: asking for it lets the MPI library get on with everything else.
//!
//! Other questions do not in every library: MPICH answers a probe for a message of a process to
//! itself at once, without a look at the network.

use super::private::is_finalized;
use crate::abi::Abi;
use crate::mpi;
use crate::room::{self, Status};
use agg_core::Result;
use libc::c_int;

/// A receive of nothing, which this process sends itself at the end.
pub(super) struct Endless {
    abi: &'static Abi,
    comm: usize,
    request: usize,
}

impl Endless {
    /// Begins to receive on `comm`, which has this process alone and no other message.
    pub(super) fn begin(abi: &'static Abi, comm: usize) -> Result<Self> {
        // SAFETY: `place` has room for a handle; no byte is received.
        let request = room::new_handle(abi, |place| unsafe {
            mpi::check(mpi::Irecv(std::ptr::null_mut(), 0, abi.handles.byte, 0, 0, comm, place))
        })?;
        Ok(Self { abi, comm, request })
    }

    /// Whether it has ended, which it does not before the end.
    pub(super) fn ask(&mut self) -> Result<bool> {
        let (mut flag, mut status): (c_int, _) = (0, Status::new());
        // SAFETY: request, flag and status are variables of this call.
        self.request = room::with_handle(self.abi, self.request, |place| unsafe {
            mpi::check(mpi::Test(place, &raw mut flag, status.place()))
        })?;
        Ok(flag != 0)
    }

    fn end(&mut self) -> Result<()> {
        // SAFETY: no byte is sent; the receive was begun, so this waits for nobody.
        unsafe {
            mpi::check(mpi::Send(std::ptr::null_mut(), 0, self.abi.handles.byte, 0, 0, self.comm))?;
        }
        while !self.ask()? {}
        Ok(())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        if !is_finalized() {
            // After a failure the request is leaked, no more.
            let _ = self.end();
        }
    }
}

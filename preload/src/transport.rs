//! The MPI library as the engine's transport.
//!
//! Messages travel over a private communicator, so they never meet the program's own; errors on it
//! return. Only the program's threads enter MPI: a future does its work when it is polled.

mod cache;
mod endless;
mod first;
pub(crate) mod lonely;
mod message;
mod places;
mod private;
mod ranks;
mod window;

use crate::abi;
use crate::requests::blocking;
use crate::{mpi, progress};
use agg_core::transport::{SingleTransport, Transport};
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;
use ranks::MpiTransport;
use std::sync::Arc;

/// The transport on which the ranks of `comm` open files together.
///
/// It is made at the first open, which is collective over `comm` in the library too, and kept with
/// the communicator. A communicator of one rank needs none.
///
/// # Errors
/// `Comm` if MPI refuses the communicator; the error of any rank at the first open.
pub fn for_communicator(comm: usize) -> Result<Arc<dyn Transport>> {
    let abi = abi::get().ok_or_else(|| Error::new(ErrorClass::Other, "no MPI"))?;
    if let Some(known) = cache::find(comm) {
        lonely::remember(abi, comm, known.rank(), known.size())?;
        return Ok(known);
    }
    let (rank, size) = rank_and_size(comm)?;
    lonely::remember(abi, comm, rank, size)?;
    if size == 1 {
        return Ok(Arc::new(SingleTransport::new(places::processor_name())));
    }
    // From here on the library's own collective calls block.
    blocking::before_collective(abi);
    let watch = first::Watch::begin(rank, size);
    let made = progress::wait(MpiTransport::build(abi, comm, rank, size))?;
    drop(watch);
    progress::wait(cache::keep(comm, &made))?;
    Ok(made)
}

fn rank_and_size(comm: usize) -> Result<(usize, usize)> {
    let (mut rank, mut size): (c_int, c_int) = (0, 0);
    // SAFETY: both variables outlive the calls.
    unsafe {
        mpi::check(mpi::Comm_rank(comm, &raw mut rank))?;
        mpi::check(mpi::Comm_size(comm, &raw mut size))?;
    }
    let invalid = |_| Error::new(ErrorClass::Comm, "a communicator without ranks");
    Ok((usize::try_from(rank).map_err(invalid)?, usize::try_from(size).map_err(invalid)?))
}

/// Frees the transports kept between opens: to be called before MPI ends, when no file is open.
pub fn forget() {
    cache::free_all();
    lonely::forget();
}

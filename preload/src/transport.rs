//! The MPI library as the engine's transport.
//!
//! Messages travel over a private communicator, so they never meet the program's own; errors on it
//! return. Only the program's threads enter MPI: a future does its work when it is polled.

mod cache;
mod endless;
mod first;
mod message;
mod places;
mod ranks;
mod window;

use crate::abi::{self, Abi};
use crate::requests::blocking;
use crate::{mpi, progress, room};
use agg_core::transport::{SingleTransport, Transport};
use agg_core::{Error, ErrorClass, Result};
use endless::Endless;
use libc::c_int;
use ranks::MpiTransport;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The transport on which the ranks of `comm` open files together.
///
/// It is made at the first open, which is collective over `comm` in the library too, and kept with
/// the communicator. A communicator of one rank needs none.
///
/// # Errors
/// `Comm` if MPI refuses the communicator; what went wrong on any rank at the first open.
pub fn for_communicator(comm: usize) -> Result<Arc<dyn Transport>> {
    let abi = abi::get().ok_or_else(|| Error::new(ErrorClass::Other, "no MPI"))?;
    if let Some(known) = cache::find(comm) {
        remember_lonely(abi, comm, known.rank(), known.size())?;
        return Ok(known);
    }
    let (rank, size) = rank_and_size(comm)?;
    remember_lonely(abi, comm, rank, size)?;
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

/// Lets the MPI library get on: with messages of the program, with those of other files, with
/// answers to one-sided operations of other ranks.
pub(crate) fn poke() {
    // Where another thread is at it, this one need not.
    let Ok(mut lonely) = LONELY.try_lock() else { return };
    if let Some(endless) = lonely.as_mut().and_then(|lonely| lonely.endless.as_mut()) {
        let _ = endless.ask();
    }
}

/// A communicator of ours that is freed with its last user, or earlier when MPI ends.
pub(crate) struct Private {
    abi: &'static Abi,
    comm: usize,
    freed: AtomicBool,
}

impl Private {
    /// The ranks of `parent` in the same order. A split, unlike a duplicate, calls no copy function
    /// of the program's attributes.
    fn split(abi: &'static Abi, parent: usize) -> Result<Self> {
        // SAFETY: `place` has room for a handle.
        let comm = room::new_handle(abi, |place| unsafe {
            mpi::check(mpi::Comm_split(parent, 0, 0, place))
        })?;
        Self::take(abi, comm)
    }

    /// This process alone, taken from `parent`; communicates with nobody.
    fn alone(abi: &'static Abi, parent: usize, rank: usize) -> Result<Self> {
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

    fn take(abi: &'static Abi, comm: usize) -> Result<Self> {
        let private = Self { abi, comm, freed: AtomicBool::new(false) };
        // SAFETY: both handles are valid.
        unsafe { mpi::check(mpi::Comm_set_errhandler(comm, abi.handles.errors_return))? };
        Ok(private)
    }
}

impl Private {
    /// Frees it, once. Nobody communicates any more.
    fn free(&self) {
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
fn is_finalized() -> bool {
    let mut flag: c_int = 0;
    // SAFETY: the flag outlives the call, which is legal at any time.
    unsafe { mpi::Finalized(&raw mut flag) };
    flag != 0
}

/// A communicator of this process alone, for questions to the library whose answer may be an
/// error; made at the first open.
struct Lonely {
    /// Before the communicator that it needs. `None` until this process shares a file with others:
    /// MPICH 4.0 crashes when a session of one rank looks at the network.
    endless: Option<Endless>,
    private: Private,
}

static LONELY: Mutex<Option<Lonely>> = Mutex::new(None);

fn remember_lonely(abi: &'static Abi, comm: usize, rank: usize, size: usize) -> Result<()> {
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
pub fn lonely() -> Result<usize> {
    let lonely = LONELY.lock().unwrap_or_else(PoisonError::into_inner);
    let none = || Error::new(ErrorClass::Intern, "no private communicator");
    lonely.as_ref().map(|lonely| lonely.private.comm).ok_or_else(none)
}

/// Frees what is kept between opens: to be called before MPI ends, when no file is open.
pub fn forget() {
    cache::free_all();
    drop(LONELY.lock().unwrap_or_else(PoisonError::into_inner).take());
}

//! The MPI library as the engine's transport.
//!
//! Messages travel over a private communicator, so they never meet the program's own; errors on it
//! return. Only the program's threads enter MPI: a future does its work when it is polled.

mod message;
mod window;

use crate::abi::{self, Abi};
use crate::requests::blocking;
use crate::{mpi, progress, room};
use agg_core::task::BoxFuture;
use agg_core::transport::{SharedState, SingleTransport, Transport, share_on_node};
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// The transport of a file that the ranks of `comm` open together; collective over `comm` unless
/// it has one rank only.
///
/// # Errors
/// `Comm` if MPI refuses the communicator.
pub fn for_communicator(comm: usize) -> Result<Arc<dyn Transport>> {
    let abi = abi::get().ok_or_else(|| Error::new(ErrorClass::Other, "no MPI"))?;
    let (mut rank, mut size): (c_int, c_int) = (0, 0);
    // SAFETY: both variables outlive the calls.
    unsafe {
        mpi::check(mpi::Comm_rank(comm, &raw mut rank))?;
        mpi::check(mpi::Comm_size(comm, &raw mut size))?;
    }
    remember_lonely(abi, comm, rank, size)?;
    let invalid = |_| Error::new(ErrorClass::Comm, "a communicator without ranks");
    let (rank, size) =
        (usize::try_from(rank).map_err(invalid)?, usize::try_from(size).map_err(invalid)?);
    if size == 1 {
        return Ok(Arc::new(SingleTransport::new(processor_name())));
    }
    // From here on the library's own collective calls block.
    blocking::before_collective(abi);
    let private = Arc::new(Private::split(abi, comm)?);
    let places = Places::gather(abi, private.comm, size)?;
    let max_tag = max_tag(abi, private.comm);
    Ok(Arc::new(MpiTransport { private, rank, size, places, max_tag }))
}

/// A communicator of ours that is freed with its last user.
pub(crate) struct Private {
    abi: &'static Abi,
    comm: usize,
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
    fn alone(abi: &'static Abi, parent: usize, rank: c_int) -> Result<Self> {
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
        let private = Self { abi, comm };
        // SAFETY: both handles are valid.
        unsafe { mpi::check(mpi::Comm_set_errhandler(comm, abi.handles.errors_return))? };
        Ok(private)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if is_finalized() {
            return;
        }
        // SAFETY: the communicator is ours; after a failure it is leaked, no more.
        let _ = room::with_handle(self.abi, self.comm, |place| unsafe {
            mpi::check(mpi::Comm_free(place))
        });
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
static LONELY: Mutex<Option<Private>> = Mutex::new(None);

fn remember_lonely(abi: &'static Abi, comm: usize, rank: c_int, size: c_int) -> Result<()> {
    let mut lonely = LONELY.lock().unwrap_or_else(PoisonError::into_inner);
    if lonely.is_none() {
        // MPICH 4.0 crashes when a communicator of one rank is made from a group in a session.
        let own =
            if size == 1 { Private::split(abi, comm) } else { Private::alone(abi, comm, rank) };
        *lonely = Some(own?);
    }
    Ok(())
}

/// A communicator of this process alone, on which errors return; there is one while files are open.
pub fn lonely() -> Result<usize> {
    let lonely = LONELY.lock().unwrap_or_else(PoisonError::into_inner);
    let none = || Error::new(ErrorClass::Intern, "no private communicator");
    lonely.as_ref().map(|private| private.comm).ok_or_else(none)
}

/// Frees what is kept between opens: to be called before MPI or a session ends.
pub fn forget() {
    drop(LONELY.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// The name of this process' host, as MPI gives it to users.
fn processor_name() -> String {
    // Larger than MPI_MAX_PROCESSOR_NAME of every ABI.
    let mut name = [0u8; 512];
    let mut length: c_int = 0;
    // SAFETY: the buffer is large enough.
    unsafe { mpi::Get_processor_name(name.as_mut_ptr().cast(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0).min(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

/// Where the ranks run.
struct Places {
    /// Host names, in rank order.
    hosts: Vec<String>,
    /// All ranks see the same processes under the same numbers: one kernel, one PID namespace.
    one_node: bool,
}

impl Places {
    fn gather(abi: &Abi, comm: usize, size: usize) -> Result<Self> {
        const NAME: usize = 256;
        const ROOM: usize = NAME + 128;
        let mut mine = [0u8; ROOM];
        put(&mut mine[..NAME], processor_name().as_bytes());
        put(&mut mine[NAME..], &kernel_identity());
        let mut all = vec![0u8; ROOM * size];
        let byte = abi.handles.byte;
        // SAFETY: every rank sends ROOM bytes and has room for ROOM bytes of each.
        unsafe {
            mpi::check(mpi::Allgather(
                mine.as_mut_ptr().cast(),
                ROOM as c_int,
                byte,
                all.as_mut_ptr().cast(),
                ROOM as c_int,
                byte,
                comm,
            ))?;
        }
        let hosts = all.chunks(ROOM).map(|one| text_before_zero(&one[..NAME])).collect();
        let one_node = mine[NAME] != 0 && all.chunks(ROOM).all(|one| one[NAME..] == mine[NAME..]);
        Ok(Self { hosts, one_node })
    }
}

fn put(room: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(room.len());
    room[..length].copy_from_slice(&bytes[..length]);
}

/// What two processes have in common that can look each other up in `/proc`: the boot of their
/// kernel and their PID namespace. Host names would not do: two hosts may have one name.
fn kernel_identity() -> Vec<u8> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if boot.is_empty() || namespace.as_os_str().is_empty() {
        return Vec::new();
    }
    [boot.trim_ascii(), namespace.as_os_str().as_encoded_bytes()].concat()
}

fn text_before_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The largest tag, an attribute of the communicator.
fn max_tag(abi: &Abi, comm: usize) -> u32 {
    let mut value: *const c_int = std::ptr::null();
    let mut found: c_int = 0;
    let key = abi.constants.tag_ub;
    // SAFETY: MPI stores the address of an int that lives as long as the library.
    unsafe {
        let asked = mpi::Comm_get_attr(comm, key, (&raw mut value).cast(), &raw mut found);
        if asked == 0 && found != 0 && !value.is_null() {
            return u32::try_from(*value).unwrap_or(32767).max(32767);
        }
    }
    32767
}

/// Ranks that exchange messages through MPI.
struct MpiTransport {
    private: Arc<Private>,
    rank: usize,
    size: usize,
    places: Places,
    max_tag: u32,
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn hosts(&self) -> &[String] {
        &self.places.hosts
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        let started = message::send(self.private.clone(), to, tag, bytes);
        Box::pin(async move { started?.await.map(|_| ()) })
    }

    fn post(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        let started = message::post(self.private.clone(), to, tag, bytes);
        Box::pin(async move { started?.await.map(|_| ()) })
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        let started = message::receive(self.private.clone(), from, tag, capacity);
        Box::pin(async move { started?.await })
    }

    fn max_tag(&self) -> u32 {
        self.max_tag
    }

    fn idle(&self, waits: u32) {
        progress::idle(waits);
    }

    /// Memory of the node if all ranks are on one and can have it, else a window.
    fn share(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedState>>> {
        Box::pin(async move {
            if self.places.one_node
                && let Ok(shared) = share_on_node(self, tag).await
            {
                return Ok(shared);
            }
            window::share(self.private.clone(), self.rank)
        })
    }
}

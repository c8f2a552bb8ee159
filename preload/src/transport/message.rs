//! One message under way: an MPI request and the bytes it works on.

use super::private::Private;
use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::room::Status;
use crate::{mpi, progress, room};
use agg_core::{Error, ErrorClass, Result, task};
use libc::c_int;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes of a unit of messages with more bytes than a C `int` can count.
const UNIT: usize = 1 << 20;

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    /// Out, without waiting for the receiver.
    Posted,
    In,
}

/// A started message; ready when it has arrived, with its bytes.
pub(super) struct Message {
    private: Arc<Private>,
    way: Way,
    request: usize,
    bytes: Vec<u8>,
    ended: bool,
}

/// Starts sending; complete when the receiver has matched it.
pub(super) fn send(private: Arc<Private>, to: usize, tag: u32, bytes: Vec<u8>) -> Result<Message> {
    start(private, Way::Out, to, tag, bytes)
}

/// Starts sending a short message; complete when MPI has taken the bytes.
pub(super) fn post(private: Arc<Private>, to: usize, tag: u32, bytes: Vec<u8>) -> Result<Message> {
    start(private, Way::Posted, to, tag, bytes)
}

/// Starts receiving.
pub(super) fn receive(
    private: Arc<Private>,
    from: usize,
    tag: u32,
    capacity: usize,
) -> Result<Message> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(capacity).map_err(|_| {
        Error::new(ErrorClass::NoMem, format!("no memory for a message of {capacity} bytes"))
    })?;
    bytes.resize(capacity, 0);
    start(private, Way::In, from, tag, bytes)
}

fn start(
    private: Arc<Private>,
    way: Way,
    peer: usize,
    tag: u32,
    mut bytes: Vec<u8>,
) -> Result<Message> {
    if task::on_worker() {
        return Err(Error::new(ErrorClass::Intern, "a message on a thread that may not send any"));
    }
    let unusable = |_| Error::new(ErrorClass::Intern, "a rank or tag beyond what MPI can number");
    let peer = c_int::try_from(peer).map_err(unusable)?;
    let tag = c_int::try_from(tag).map_err(unusable)?;
    let (abi, comm) = (private.abi, private.comm);
    let layout = Layout::of(abi, bytes.len())?;
    let address: Opaque = bytes.as_mut_ptr().cast();
    // SAFETY: the bytes stay where they are until the request has ended: a message that is dropped
    // before leaks them.
    let request = room::new_handle(abi, |place| unsafe {
        mpi::check(match way {
            Way::Out => mpi::Issend(address, layout.count, layout.datatype, peer, tag, comm, place),
            Way::Posted => {
                mpi::Isend(address, layout.count, layout.datatype, peer, tag, comm, place)
            }
            Way::In => mpi::Irecv(address, layout.count, layout.datatype, peer, tag, comm, place),
        })
    })?;
    Ok(Message { private, way, request, bytes, ended: false })
}

/// A number of bytes as count and datatype.
struct Layout {
    abi: &'static Abi,
    datatype: usize,
    count: c_int,
    /// The type is ours and must be freed; MPI keeps it as long as a message needs it.
    derived: bool,
}

impl Layout {
    fn of(abi: &'static Abi, bytes: usize) -> Result<Self> {
        let byte = abi.handles.byte;
        if let Ok(count) = c_int::try_from(bytes) {
            return Ok(Self { abi, datatype: byte, count, derived: false });
        }
        let too_long = |_| Error::new(ErrorClass::Intern, format!("a message of {bytes} bytes"));
        let units = c_int::try_from(bytes / UNIT).map_err(too_long)?;
        let rest = c_int::try_from(bytes % UNIT).map_err(too_long)?;
        let behind = i64::try_from(bytes - bytes % UNIT).map_err(too_long)?;
        // SAFETY: the arrays have two elements each and outlive the calls; all types are valid.
        unsafe {
            let unit = room::new_handle(abi, |place| {
                mpi::check(mpi::Type_contiguous(UNIT as c_int, byte, place))
            })?;
            let mut types = [0usize; 2];
            let place: Opaque = types.as_mut_ptr().cast();
            abi.store(place, 0, unit);
            abi.store(place, 1, byte);
            let lengths = [units, rest];
            let displacements = [0i64, behind];
            let whole = room::new_handle(abi, |new| {
                mpi::check(mpi::Type_create_struct(
                    2,
                    lengths.as_ptr(),
                    displacements.as_ptr(),
                    place,
                    new,
                ))
            });
            room::with_handle(abi, unit, |unit| mpi::check(mpi::Type_free(unit)))?;
            let whole = room::with_handle(abi, whole?, |it| mpi::check(mpi::Type_commit(it)))?;
            Ok(Self { abi, datatype: whole, count: 1, derived: true })
        }
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        if self.derived {
            // SAFETY: the type is ours.
            let _ = room::with_handle(self.abi, self.datatype, |place| unsafe {
                mpi::check(mpi::Type_free(place))
            });
        }
    }
}

impl Message {
    /// Asks MPI whether the message has ended; the number of bytes received.
    fn test(&mut self) -> Result<Option<usize>> {
        let abi = self.private.abi;
        let mut status = Status::new();
        let mut flag: c_int = 0;
        // SAFETY: request, flag and status are variables of this call or of `self`.
        let tested = room::with_handle(abi, self.request, |place| unsafe {
            mpi::check(mpi::Test(place, &raw mut flag, status.place()))
        });
        match tested {
            Ok(request) => self.request = request,
            Err(error) => {
                self.ended = true;
                return Err(error);
            }
        }
        if flag == 0 {
            return Ok(None);
        }
        self.ended = true;
        progress::advanced();
        if self.way != Way::In {
            return Ok(Some(self.bytes.len()));
        }
        received(abi, &mut status).map(Some)
    }
}

fn received(abi: &Abi, status: &mut Status) -> Result<usize> {
    let mut count = 0i64;
    // SAFETY: the status was filled by MPI; the variables outlive the calls.
    unsafe {
        if mpi::has(&mpi::symbol::Get_elements_x) {
            mpi::check(mpi::Get_elements_x(status.place(), abi.handles.byte, &raw mut count))?;
        } else {
            let mut narrow: c_int = 0;
            mpi::check(mpi::Get_elements(status.place(), abi.handles.byte, &raw mut narrow))?;
            count = i64::from(narrow);
        }
    }
    usize::try_from(count).map_err(|_| Error::new(ErrorClass::Intern, "a message without a size"))
}

impl Future for Message {
    type Output = Result<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.test() {
            Ok(None) => {
                task::poll_again();
                Poll::Pending
            }
            Ok(Some(count)) => {
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.truncate(count);
                Poll::Ready(Ok(bytes))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if !self.ended {
            // MPI may still use the bytes.
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}

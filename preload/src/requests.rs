//! Nonblocking reads and writes: generalized requests. Workers of the engine do the work; if it
//! needs messages, the program's own threads do it in their calls of MPI.
//!
//! The MPI library cannot complete such a request by itself, so this library looks at every call in
//! which a program completes requests ([`hooks`]), asks for them ([`inquiry`]) or waits for others
//! ([`blocking`]). Workers never call MPI, so this works at every thread level: requests are
//! completed, and user functions called, by the program's threads only.

pub mod blocking;
pub mod hooks;
pub mod inquiry;

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::data::{self, After, Buffer, Direction, Position};
use crate::entry::Target;
use crate::handles::OpenFile;
use crate::pending::{Pending, less_work, more_work};
use crate::{mpi, progress, room, status};
use agg_core::driver::Outcome;
use agg_core::log::{self, Level};
use agg_core::workers::{self, Running};
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Operations that have not ended.
static PENDING: Operations = Operations(Mutex::new(Vec::new()));

/// The list of nonblocking operations.
struct Operations(Mutex<Vec<Arc<Operation>>>);

impl Operations {
    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Operation>>> {
        locked(&self.0)
    }
}

impl Pending for Operations {
    fn progress(&self) {
        // The list must not stay locked meanwhile.
        let pending = self.locked().clone();
        for operation in pending {
            if operation.poll() && unlist(&operation) {
                operation.complete();
            }
        }
    }

    fn needs_turns(&self) -> bool {
        self.locked().iter().any(|one| one.running.is_here())
    }

    fn may_need_turns(&self) -> bool {
        !self.locked().iter().all(|one| one.running.is_settled())
    }
}

/// Operations by request handle: those that are pending and those that hold an error.
static BY_REQUEST: LazyLock<Mutex<HashMap<usize, Arc<Operation>>>> = LazyLock::new(Mutex::default);

/// A nonblocking operation.
pub struct Operation {
    abi: &'static Abi,
    file: Arc<OpenFile>,
    /// The generalized request.
    request: AtomicUsize,
    running: Running<Outcome>,
    /// The work after it has ended, for a thread of the program.
    after: Mutex<Option<After>>,
    /// Whether other ranks take part.
    collective: bool,
    bytes: AtomicU64,
    error: Mutex<Option<Error>>,
    ended: AtomicBool,
    /// No longer counted as work.
    retired: AtomicBool,
    holder: Mutex<Holder>,
}

/// The owner of the request of an operation, who will free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// The program, which has not been notified that the operation has ended.
    Program,
    /// The program has freed it meanwhile. The library is not notified of that before the operation
    /// has ended: MPICH gives up a generalized request at once, and it must not be completed then.
    Nobody,
    /// The library has freed it all the same, by a way that this library does not see.
    Library,
    /// The program, which can learn that the operation has ended.
    Informed,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts one nonblocking data operation and fills `request`.
///
/// # Errors
/// Errors in the arguments of an operation of this rank alone. All other errors are reported when
/// the request is completed.
///
/// # Safety
/// The buffer and `request` satisfy the requirements of MPI.
pub unsafe fn start(
    target: &Target,
    direction: Direction,
    position: Position,
    collective: bool,
    buffer: Buffer,
    request: Opaque,
) -> Result<()> {
    if request.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the address for the request is null"));
    }
    // SAFETY: the caller's promise.
    let prepared = unsafe { data::prepare(target, direction, position, collective, buffer) };
    let alone = !prepared.call.is_collective();
    let running = target.file.engine.launch(prepared.call);
    let operation = Arc::new(Operation {
        abi: target.abi,
        file: target.file.clone(),
        request: AtomicUsize::new(0),
        running,
        after: Mutex::new(Some(prepared.after)),
        collective: !alone,
        bytes: AtomicU64::new(0),
        error: Mutex::new(None),
        ended: AtomicBool::new(false),
        retired: AtomicBool::new(false),
        holder: Mutex::new(Holder::Program),
    });
    let ended = operation.poll();
    if alone
        && ended
        && let Some(error) = operation.refusal()
    {
        // SAFETY: the caller gives room for a request.
        unsafe { target.abi.store(request, 0, target.abi.handles.request_null) };
        return Err(error);
    }
    // SAFETY: as above.
    unsafe { operation.publish(request) }
}

impl Operation {
    /// Does the work that is left to this thread and does not wait; returns whether the operation
    /// has ended.
    fn poll(&self) -> bool {
        let Some(outcome) = self.running.poll() else { return self.ended.load(Ordering::Acquire) };
        let Some(after) = locked(&self.after).take() else { return false };
        let outcome = after.finish(outcome);
        self.bytes.store(outcome.bytes, Ordering::Release);
        *locked(&self.error) = outcome.result.err();
        self.ended.store(true, Ordering::Release);
        true
    }

    /// The error of an operation that was refused before it touched the file.
    fn refusal(&self) -> Option<Error> {
        use ErrorClass::{
            Access, Arg, Buffer, Count, File, ReadOnly, Request, Type, UnsupportedOperation,
        };
        const OF_ARGUMENTS: [ErrorClass; 9] =
            [Access, Arg, Buffer, Count, File, ReadOnly, Request, Type, UnsupportedOperation];
        let error = locked(&self.error);
        let refused = |error: &&Error| OF_ARGUMENTS.contains(&error.class()) && error.errno() == 0;
        error.as_ref().filter(refused).cloned()
    }

    /// Gives the caller a request for the operation.
    ///
    /// # Safety
    /// `request` has room for a request.
    unsafe fn publish(self: Arc<Self>, request: Opaque) -> Result<()> {
        let abi = self.abi;
        let state = Arc::into_raw(self.clone()).cast_mut().cast();
        // SAFETY: the callbacks have MPI's signatures, and expect this type of `state`; `free`
        // takes it back.
        let handle = unsafe {
            let [query, free, cancel] =
                [query as *mut _, free as *mut _, cancel as *mut libc::c_void];
            mpi::check(mpi::Grequest_start(query, free, cancel, state, request))?;
            abi.load(request, 0)
        };
        self.request.store(handle, Ordering::Release);
        more_work(&PENDING);
        if self.ended.load(Ordering::Acquire) {
            if locked(&self.error).is_some() {
                locked(&BY_REQUEST).insert(handle, self.clone());
            }
            self.complete();
        } else {
            locked(&BY_REQUEST).insert(handle, self.clone());
            PENDING.locked().push(self);
        }
        Ok(())
    }

    /// Notifies MPI that the operation has ended.
    fn complete(self: &Arc<Self>) {
        let handle = self.request.load(Ordering::Acquire);
        let watched = locked(&BY_REQUEST).contains_key(&handle);
        if !watched || locked(&self.error).is_none() {
            self.retire();
        }
        let mut holder = locked(&self.holder);
        if *holder != Holder::Library {
            // SAFETY: the request was started and is completed once.
            let _ = mpi::check(unsafe { mpi::Grequest_complete(handle) });
        }
        let held = std::mem::replace(&mut *holder, Holder::Informed);
        drop(holder);
        if held == Holder::Nobody {
            // SAFETY: the program has left this to us; the request is complete.
            let free = |place| mpi::check(unsafe { mpi::Request_free(place) });
            let _ = room::with_handle(self.abi, handle, free);
        }
        if held != Holder::Program {
            self.tell_error();
        }
    }

    /// Takes the request from the program, which gives it up; returns false if the MPI library has
    /// been notified that the operation has ended.
    fn let_go(&self) -> bool {
        let mut holder = locked(&self.holder);
        if *holder != Holder::Program {
            return false;
        }
        *holder = Holder::Nobody;
        drop(holder);
        forget(self.request.load(Ordering::Acquire), self);
        true
    }

    /// Logs the error where no call can return it.
    fn tell_error(&self) {
        if let Some(error) = locked(&self.error).take() {
            let error = error.with_path(&self.file.path);
            log::write(Level::Error, format_args!("after MPI_Request_free: {error}"));
        }
    }

    /// Makes hooks forget the operation.
    fn retire(&self) {
        if self.retired.swap(true, Ordering::AcqRel) {
            return;
        }
        forget(self.request.load(Ordering::Acquire), self);
        less_work();
    }

    /// The error of an operation that the program has just completed.
    fn take_error(&self) -> Option<Error> {
        let error = locked(&self.error).take();
        if self.ended.load(Ordering::Acquire) {
            self.retire();
        }
        error
    }
}

/// The operation behind a request, if it is pending or holds an error.
fn find(handle: usize) -> Option<Arc<Operation>> {
    locked(&BY_REQUEST).get(&handle).cloned()
}

/// Forgets that the request `handle` stands for `operation`; another one may have the same handle.
fn forget(handle: usize, operation: &Operation) {
    let mut by_request = locked(&BY_REQUEST);
    if by_request.get(&handle).is_some_and(|known| std::ptr::eq(&raw const **known, operation)) {
        by_request.remove(&handle);
    }
}

/// Takes an ended operation off the list; whether it was still there, so that only one completes
/// it.
fn unlist(operation: &Arc<Operation>) -> bool {
    let mut pending = PENDING.locked();
    let index = pending.iter().position(|one| Arc::ptr_eq(one, operation));
    index.map(|index| pending.swap_remove(index)).is_some()
}

/// Ends pending operations when the program ends MPI, and stops those that other ranks have
/// abandoned: the files are about to be closed.
pub fn end_all() {
    let since = Instant::now();
    // The list must not stay locked meanwhile.
    let pending = PENDING.locked().clone();
    for operation in pending {
        let mut told = workers::events();
        while !operation.poll()
            && !operation.running.is_here()
            && (!operation.collective || since.elapsed() < blocking::PATIENCE)
        {
            workers::rest(told, Duration::from_millis(10));
            told = workers::events();
        }
        if operation.poll() && unlist(&operation) {
            operation.complete();
        }
        // Leak it: it may own the memory of a message.
        std::mem::forget(operation.running.stop());
    }
}

/// Waits until no operation on `file` is pending.
pub fn drain(file: &OpenFile) {
    let pending = || PENDING.locked().iter().any(|one| one.file.handle == file.handle);
    progress::wait(std::future::poll_fn(
        |_| {
            if pending() { Poll::Pending } else { Poll::Ready(()) }
        },
    ));
}

/// The query callback: fills in the status of the request.
///
/// It never fails: the library would call the error handler of a communicator, but errors of files
/// belong to the handler of the file, which a hook calls.
unsafe extern "C" fn query(state: Opaque, status: Opaque) -> c_int {
    // SAFETY: `state` is the operation that `publish` gave away and `free` has not yet taken.
    let operation = unsafe { &*state.cast_const().cast::<Operation>() };
    let bytes = operation.bytes.load(Ordering::Acquire);
    // SAFETY: the library passes a status object.
    unsafe { status::set(operation.abi, status, bytes) };
    0
}

/// The free callback: the request is complete and nobody holds it any more; or the program has
/// freed it early in a way that no hook saw, and the operation goes on.
unsafe extern "C" fn free(state: Opaque) -> c_int {
    // SAFETY: `publish` gave one reference away, and this is called once.
    let operation = unsafe { Arc::from_raw(state.cast_const().cast::<Operation>()) };
    if operation.ended.load(Ordering::Acquire) {
        operation.retire();
    } else {
        // Held by this very thread only while it completes the request, which has ended then.
        *locked(&operation.holder) = Holder::Library;
        forget(operation.request.load(Ordering::Acquire), &operation);
    }
    0
}

/// The cancel callback: file operations are not cancelled.
unsafe extern "C" fn cancel(_state: Opaque, _complete: c_int) -> c_int {
    0
}

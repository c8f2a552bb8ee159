//! Error handlers of files (MPI-4.1, 9.3 and 14.7).

use crate::abi::Abi;
use crate::arguments::{FileHandle, Handle, Opaque};
use crate::attached::{Attached, DEFAULT, Language, attach, default_handler, known, learn, lock};
use crate::forward;
use crate::handles::{self, Found};
use crate::transport::lonely;
use crate::{errors, invoke, mpi, room};
use libc::c_int;

/// `MPI_File_create_errhandler`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn create(abi: &Abi, function: Opaque, errhandler: Opaque) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    let code = unsafe { forward::MPI_File_create_errhandler(function, errhandler) };
    if code == 0 {
        // SAFETY: the library has just stored a handle there.
        learn(unsafe { abi.load(errhandler, 0) }, function as usize, Language::C);
    }
    code
}

/// `MPI_File_set_errhandler`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set(abi: &Abi, fh: FileHandle, errhandler: usize) -> c_int {
    const NAME: &str = "MPI_File_set_errhandler";
    let slot = if fh == abi.handles.file_null {
        // The library's own files take the default from the library.
        // SAFETY: the caller's arguments, passed on.
        let code = unsafe { forward::MPI_File_set_errhandler(fh, Handle::from(errhandler)) };
        if code != 0 {
            return code;
        }
        None
    } else {
        match handles::find(fh) {
            // SAFETY: the caller's arguments, passed on.
            Found::Foreign => unsafe {
                return forward::MPI_File_set_errhandler(fh, Handle::from(errhandler));
            },
            Found::Closed => return errors::invalid_handle(NAME).left,
            Found::Open(file) => Some(file),
        }
    };
    match (attach(abi, errhandler), slot) {
        (Ok(new), Some(file)) => {
            let old = std::mem::replace(&mut *lock(&file.errhandler), new);
            drop(old);
            0
        }
        (Ok(new), None) => {
            let old = std::mem::replace(&mut *lock(&DEFAULT), new);
            drop(old);
            0
        }
        (Err(error), Some(file)) => errors::on_file(&file, error.with_operation(NAME)).left,
        (Err(error), None) => errors::on_no_file(&error.with_operation(NAME)).left,
    }
}

/// The handler in force for `fh`; an error code if there is no such file of ours; `None` for the
/// real library's files.
fn in_force(
    abi: &Abi,
    fh: FileHandle,
    function: &str,
) -> Option<std::result::Result<Attached, c_int>> {
    if fh == abi.handles.file_null {
        return Some(Ok(default_handler()));
    }
    match handles::find(fh) {
        Found::Foreign => None,
        Found::Closed => Some(Err(errors::invalid_handle(function).answer())),
        Found::Open(file) => Some(Ok(lock(&file.errhandler).clone())),
    }
}

/// `MPI_File_get_errhandler`: gives a new reference, which the program frees.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get(abi: &Abi, fh: FileHandle, errhandler: Opaque) -> c_int {
    let handle = match in_force(abi, fh, "MPI_File_get_errhandler") {
        // SAFETY: the caller's arguments, passed on.
        None => return unsafe { forward::MPI_File_get_errhandler(fh, errhandler) },
        Some(Err(code)) => return code,
        Some(Ok(Attached::Return)) => predefined(abi, abi.handles.errors_return),
        Some(Ok(Attached::Fatal)) => predefined(abi, abi.handles.errors_are_fatal),
        Some(Ok(Attached::Abort)) => predefined(abi, abi.handles.errors_abort),
        Some(Ok(Attached::Throw)) => predefined(abi, abi.handles.errors_throw_exceptions),
        Some(Ok(Attached::User(reference))) => {
            if let Some(entry) = known().get_mut(&reference.handle) {
                entry.program += 1;
            }
            reference.handle
        }
    };
    // SAFETY: the caller gives room for a handle.
    unsafe { abi.store(errhandler, 0, handle) };
    0
}

/// A reference to a predefined handler that the program may free: Open MPI counts those of
/// predefined handlers too. It is obtained from a communicator of ours, or before the first open
/// from the real library's null file, which has the same handler then.
fn predefined(abi: &Abi, handle: usize) -> usize {
    // SAFETY: valid handles; each place has room for one.
    let counted = unsafe {
        match lonely::communicator() {
            Ok(comm) => {
                mpi::Comm_set_errhandler(comm, handle);
                let counted = room::new_handle(abi, |place| {
                    mpi::check(mpi::Comm_get_errhandler(comm, place))
                });
                mpi::Comm_set_errhandler(comm, abi.handles.errors_return);
                counted
            }
            Err(_) => room::new_handle(abi, |place| {
                mpi::check(forward::MPI_File_get_errhandler(abi.handles.file_null, place))
            }),
        }
    };
    counted.unwrap_or(handle)
}

/// `MPI_File_call_errhandler`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn call(abi: &Abi, fh: FileHandle, code: c_int) -> c_int {
    let handler = match in_force(abi, fh, "MPI_File_call_errhandler") {
        // SAFETY: the caller's arguments, passed on.
        None => return unsafe { forward::MPI_File_call_errhandler(fh, code) },
        Some(Err(code)) => return code,
        Some(Ok(handler)) => handler,
    };
    let comm = match handles::find(fh) {
        Found::Open(file) => file.comm,
        _ => abi.handles.comm_null,
    };
    let text = format!("MPI_File_call_errhandler: called by the program with code {code}");
    invoke::handler(abi, &handler, fh, comm, code, &text);
    0
}

/// `MPI_Errhandler_free`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn free(abi: &Abi, errhandler: Opaque) -> c_int {
    // SAFETY: the caller passes the address of a handle.
    let handle = unsafe { abi.load(errhandler, 0) };
    let mut known = known();
    if let Some(entry) = known.get_mut(&handle) {
        entry.program = entry.program.saturating_sub(1);
        if entry.program > 0 || entry.attached > 0 {
            // SAFETY: as above.
            unsafe { abi.store(errhandler, 0, abi.handles.errhandler_null) };
            return 0;
        }
        known.remove(&handle);
    }
    drop(known);
    // SAFETY: the caller's argument, passed on.
    unsafe { forward::MPI_Errhandler_free(errhandler) }
}

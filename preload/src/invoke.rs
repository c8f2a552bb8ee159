//! Calling the error handler of a file.

use crate::abi::Abi;
use crate::arguments::FileHandle;
use crate::attached::{Attached, Language, Reference};
use crate::{cxx, fortran, mpi, rescue};
use agg_core::log;
use libc::c_int;

/// Calls the handler for the error `code` of the file `fh`, opened on `comm` (null if there is no
/// file), and returns the code that it left. No lock is held: the handler may call MPI.
pub fn handler(
    abi: &Abi,
    attached: &Attached,
    fh: FileHandle,
    comm: usize,
    code: c_int,
    text: &str,
) -> c_int {
    match attached {
        Attached::Return | Attached::Throw => {}
        Attached::Fatal => abort(abi, None, comm, code, text),
        Attached::Abort => abort(abi, Some(comm), comm, code, text),
        Attached::User(reference) => return call_user(abi, reference, fh, code),
    }
    code
}

/// Calls a function of the program and returns the code that it left.
fn call_user(abi: &Abi, reference: &Reference, fh: FileHandle, mut code: c_int) -> c_int {
    match reference.language {
        Language::C => {
            let mut fh = fh;
            // SAFETY: the program registered this function as an MPI_File_errhandler_function.
            unsafe {
                let function: unsafe extern "C" fn(*mut FileHandle, *mut c_int, ...) =
                    std::mem::transmute(reference.function);
                function(&raw mut fh, &raw mut code);
            }
        }
        Language::Cxx => cxx::call(reference.function, fh, &mut code),
        Language::Fortran => {
            // SAFETY: as above; Fortran passes both arguments by reference.
            unsafe {
                let mut fh = fortran::c2f(abi, fh);
                let function: unsafe extern "C" fn(*mut c_int, *mut c_int) =
                    std::mem::transmute(reference.function);
                function(&raw mut fh, &raw mut code);
            }
        }
    }
    code
}

/// Ends the job: the processes of `only`, or all that are connected.
fn abort(abi: &Abi, only: Option<usize>, comm: usize, code: c_int, text: &str) {
    log::report(format_args!("{text}; the error handler ends the job"));
    rescue::all();
    log::wait_for_reader();
    let mut world: c_int = 0;
    // SAFETY: both functions may be called at any time; the communicator is the file's, or the
    // world, which exists once MPI_Init was called (not in a program that has sessions only).
    unsafe {
        mpi::Initialized(&raw mut world);
        let everybody = if world != 0 { abi.handles.comm_world } else { comm };
        let comm = only.filter(|&comm| comm != abi.handles.comm_null).unwrap_or(everybody);
        if comm != abi.handles.comm_null {
            mpi::Abort(comm, code);
        }
        libc::abort();
    }
}

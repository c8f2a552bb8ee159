//! `MPI_File_close`, and files that are still open when MPI ends.

use crate::abi::Abi;
use crate::arguments::FileHandle;
use crate::entry::{Access, access};
use crate::forward;
use crate::handles::{self, OpenFile};
use crate::{errors, mpi, progress, requests, split};
use agg_core::log::{self, Level};
use agg_core::{Error, ErrorClass};
use libc::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `MPI_File_close`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn close(abi: &'static Abi, fh: *mut FileHandle) -> c_int {
    const NAME: &str = "MPI_File_close";
    if fh.is_null() {
        let text = "the address of the file handle is null";
        return errors::on_no_file(&Error::new(ErrorClass::Arg, text).with_operation(NAME)).left;
    }
    // SAFETY: the caller passes the address of a handle.
    match access(unsafe { *fh }, NAME) {
        // SAFETY: the caller's argument, passed on.
        Access::Foreign => unsafe { forward::MPI_File_close(fh) },
        Access::Invalid => errors::invalid_handle(NAME).left,
        Access::Ours(call) => {
            requests::drain(&call.file);
            let closed = progress::wait(call.file.engine.clone().close());
            agg_core::log!(Level::Info, "{}: closed", call.file.path);
            split::forget(&call.file);
            keep(&call.file);
            let code = call.finish(closed);
            release(abi, &call.file);
            // SAFETY: as above. The handle becomes null even if closing failed.
            unsafe { *fh = abi.handles.file_null };
            code
        }
    }
}

/// Forgets the file and gives back the MPI objects that were kept for it.
fn release(abi: &Abi, file: &OpenFile) {
    handles::remove(file.handle);
    let mut group = 0usize;
    let place = (&raw mut group).cast();
    // SAFETY: the group was made for this file; the variable has room for a handle of any ABI.
    unsafe {
        abi.store(place, 0, file.group);
        mpi::Group_free(place);
    }
    file.types.lock().unwrap_or_else(PoisonError::into_inner).free(abi);
}

/// Messages for the end of MPI: files without sets, and the reasons.
static NO_SETS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn no_sets() -> MutexGuard<'static, Vec<String>> {
    NO_SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(file: &OpenFile) {
    no_sets().extend(file.engine.no_set().map(str::to_owned));
}

/// Reports the files without sets, one per line. They come last, so that no other output comes
/// between these lines and the end.
pub fn tell_no_sets() {
    for line in no_sets().drain(..) {
        log::once_on_any_rank(Level::Warn, &line);
    }
}

/// Closes files that the program left open when it ends MPI. This is not collective: other ranks
/// may be anywhere in the program.
pub fn abandon_all() {
    for file in handles::all() {
        let path = &file.path;
        log::once(Level::Warn, &format!("{path}: still open when MPI ends; closed now"));
        if let Err(error) = file.engine.abandon() {
            log::write(Level::Error, format_args!("{error}"));
        }
        // Its converted bytes go when nobody is at them any more.
        split::forget(&file);
        keep(&file);
        handles::remove(file.handle);
    }
}

//! `MPI_File_delete`.

use crate::abi::Abi;
use crate::arguments::Handle;
use crate::forward;
use crate::{config, errors, open};
use libc::{c_char, c_int};

/// `MPI_File_delete`. Ignores `info`, because no hint affects deletion.
///
/// # Safety
/// As MPI demands.
pub unsafe fn delete(_abi: &'static Abi, name: *const c_char, info: usize) -> c_int {
    // SAFETY: the caller's promise about `name`.
    let path = unsafe { open::file_name(name) };
    if !path.as_ref().map_or(true, |path| path.as_deref().is_some_and(open::is_managed)) {
        // SAFETY: the caller's arguments, passed on.
        return unsafe { forward::MPI_File_delete(name, Handle::from(info)) };
    }
    match path.map(Option::unwrap_or_default).and_then(|path| config::get().engine.delete(&path)) {
        Ok(()) => 0,
        Err(error) => errors::raise(&error.with_operation("MPI_File_delete")),
    }
}

//! Error handlers of files, and the functions behind those that the program made.
//!
//! The library's error handler objects are opaque, so the function behind each is remembered when
//! it is created. An object that the program frees while a file of ours still uses it is kept
//! until the last such file is closed.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::mpi;
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calling convention of a user's error handler function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// With the address of the `MPI_File`.
    C,
    /// With the address of the file's Fortran handle.
    Fortran,
    /// With an object of Open MPI's C++ bindings.
    Cxx,
}

/// A user's error handler that was created for files.
pub(crate) struct Known {
    function: usize,
    language: Language,
    /// References that the program holds and will free.
    pub(crate) program: usize,
    /// Files of ours (and the default for new files) that use it.
    pub(crate) attached: usize,
}

static KNOWN: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());
pub(crate) static DEFAULT: Mutex<Attached> = Mutex::new(Attached::Return);

/// The error handler that a file uses.
#[derive(Clone, Debug, Default)]
pub enum Attached {
    /// `MPI_ERRORS_RETURN`, the default for files.
    #[default]
    Return,
    /// `MPI::ERRORS_THROW_EXCEPTIONS` of the C++ bindings. The code is returned: MPICH's bindings
    /// throw when they see it. (Open MPI's would throw from inside, which cannot be done through
    /// this library.)
    Throw,
    /// `MPI_ERRORS_ARE_FATAL`.
    Fatal,
    /// `MPI_ERRORS_ABORT`.
    Abort,
    /// A function of the program.
    User(Arc<Reference>),
}

/// Keeps the library's object of a user's error handler alive.
#[derive(Debug)]
pub struct Reference {
    pub(crate) handle: usize,
    pub(crate) function: usize,
    pub(crate) language: Language,
}

impl Drop for Reference {
    fn drop(&mut self) {
        let mut known = known();
        let Some(entry) = known.get_mut(&self.handle) else { return };
        entry.attached = entry.attached.saturating_sub(1);
        if entry.attached == 0 && entry.program == 0 {
            known.remove(&self.handle);
            drop(known);
            free_object(self.handle);
        }
    }
}

pub(crate) fn known() -> MutexGuard<'static, BTreeMap<usize, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the library's object, unless MPI is finalized.
fn free_object(handle: usize) {
    let Some(abi) = crate::abi::get() else { return };
    let mut finalized: c_int = 0;
    let mut variable = [0usize; 1];
    let variable: Opaque = variable.as_mut_ptr().cast();
    // SAFETY: `variable` has room for a handle of any ABI; the object is alive.
    unsafe {
        mpi::Finalized(&raw mut finalized);
        if finalized == 0 {
            abi.store(variable, 0, handle);
            mpi::Errhandler_free(variable);
        }
    }
}

/// Remembers that `handle` calls `function` in this way.
pub fn learn(handle: usize, function: usize, language: Language) {
    let mut known = known();
    let entry =
        known.entry(handle).or_insert(Known { function, language, program: 1, attached: 0 });
    entry.function = function;
    entry.language = language;
}

/// The handler for new files, and for errors without a file.
pub fn default_handler() -> Attached {
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The default for new files is `MPI_ERRORS_RETURN` again, as at the start.
pub fn forget_default() {
    let old = std::mem::take(&mut *lock(&DEFAULT));
    drop(old);
}

/// The handler object as something that a file can use.
pub(crate) fn attach(abi: &Abi, errhandler: usize) -> Result<Attached> {
    let predefined = [
        (abi.handles.errors_return, Attached::Return),
        (abi.handles.errors_are_fatal, Attached::Fatal),
        (abi.handles.errors_abort, Attached::Abort),
        (abi.handles.errors_throw_exceptions, Attached::Throw),
    ];
    // Where a library lacks one of them, its handle is 0.
    if let Some((_, attached)) =
        predefined.into_iter().find(|&(handle, _)| handle == errhandler && handle != 0)
    {
        return Ok(attached);
    }
    let mut known = known();
    let Some(entry) = known.get_mut(&errhandler) else {
        let text = "the error handler was not created by MPI_File_create_errhandler";
        return Err(Error::new(ErrorClass::Arg, text));
    };
    entry.attached += 1;
    let (function, language) = (entry.function, entry.language);
    Ok(Attached::User(Arc::new(Reference { handle: errhandler, function, language })))
}

pub(crate) fn lock(slot: &Mutex<Attached>) -> MutexGuard<'_, Attached> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

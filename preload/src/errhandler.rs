//! Error handlers of files (MPI-4.1, 9.3 and 14.7).
//!
//! The library's error handler objects are opaque, so the function behind each is remembered when
//! it is created. An object that the program frees while a file of ours still uses it is kept
//! until the last such file is closed.

use crate::abi::Abi;
use crate::entry::{FileHandle, Handle, Opaque};
use crate::handles::{self, Found};
use crate::symbols::forward;
use crate::{close, cxx, errors, fortran, mpi, room, transport};
use agg_core::log;
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a user's error handler function wants to be called.
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
struct Known {
    function: usize,
    language: Language,
    /// References that the program holds and will free.
    program: usize,
    /// Files of ours (and the default for new files) that use it.
    attached: usize,
}

static KNOWN: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());
static DEFAULT: Mutex<Attached> = Mutex::new(Attached::Return);

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
    handle: usize,
    function: usize,
    language: Language,
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

fn known() -> MutexGuard<'static, BTreeMap<usize, Known>> {
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
fn attach(abi: &Abi, errhandler: usize) -> Result<Attached> {
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

fn lock(slot: &Mutex<Attached>) -> MutexGuard<'_, Attached> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
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
/// predefined handlers too. A communicator of ours gives it, or before the first open the real
/// library's null file, whose handler is then ours as well.
fn predefined(abi: &Abi, handle: usize) -> usize {
    // SAFETY: valid handles; each place has room for one.
    let counted = unsafe {
        match transport::lonely() {
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
    invoke(abi, &handler, fh, comm, code, &text);
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

/// Calls `handler` for the error `code` of the file `fh`, whose ranks are those of `comm` (null if
/// there is no file), and returns what it left of the code. No lock is held: the handler may call
/// MPI.
pub fn invoke(
    abi: &Abi,
    handler: &Attached,
    fh: FileHandle,
    comm: usize,
    code: c_int,
    text: &str,
) -> c_int {
    match handler {
        Attached::Return | Attached::Throw => {}
        Attached::Fatal => abort(abi, None, comm, code, text),
        Attached::Abort => abort(abi, Some(comm), comm, code, text),
        Attached::User(reference) => return call_user(abi, reference, fh, code),
    }
    code
}

/// Calls a function of the program; what it left of `code`.
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
    close::rescue_all();
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

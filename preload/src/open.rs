//! `MPI_File_open`.

use crate::abi::Abi;
use crate::arguments::{FileHandle, Handle};
use crate::forward;
use crate::handles::{self, OpenFile};
use crate::view_types::Types;
use crate::{
    amode, attached, config, errors, hdf5, info, mpi, one_node, progress, rescue, transport,
};
use agg_core::diagnostics::Diagnostics;
use agg_core::file::{File, OpenRequest, Stages};
use agg_core::hints::{Hints, Switch};
use agg_core::log::{self, Level};
use agg_core::settings::stage::StagePlace;
use agg_core::{Error, ErrorClass, Result, pattern, settings};
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

/// `MPI_File_open`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn open(
    abi: &'static Abi,
    comm: usize,
    name: *const c_char,
    amode: c_int,
    info: usize,
    fh: *mut FileHandle,
) -> c_int {
    // SAFETY: the caller's promise about `name`.
    let path = unsafe { file_name(name) };
    if !path.as_ref().map_or(true, |path| path.as_deref().is_some_and(is_managed)) {
        let (comm, info) = (Handle::from(comm), Handle::from(info));
        // SAFETY: the caller's arguments, passed on.
        return unsafe { forward::MPI_File_open(comm, name, amode, info, fh) };
    }
    let path = if fh.is_null() {
        Err(Error::new(ErrorClass::Arg, "the address for the file handle is null"))
    } else {
        path.map(Option::unwrap_or_default)
    };
    let (handle, code) = match open_managed(abi, comm, path, amode, info) {
        Ok(file) => (file.handle, 0),
        Err(error) => {
            (abi.handles.file_null, errors::raise(&error.with_operation("MPI_File_open")))
        }
    };
    if !fh.is_null() {
        // SAFETY: the caller gives room for a handle.
        unsafe { *fh = handle };
    }
    code
}

/// The file name in a C string; `None` for a name that is not UTF-8, which is left to the MPI
/// library.
///
/// # Errors
/// `Arg` for a null pointer.
///
/// # Safety
/// `name` is null or a C string.
pub unsafe fn file_name(name: *const c_char) -> Result<Option<String>> {
    if name.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the file name is null"));
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if let Ok(name) = name.to_str() {
        return Ok(Some(name.to_owned()));
    }
    log::once(
        Level::Warn,
        &format!("{name:?}: a name that is not UTF-8 is left to the MPI library"),
    );
    Ok(None)
}

/// Whether files of this name are ours to serve.
pub fn is_managed(name: &str) -> bool {
    let config = config::get();
    config.settings.manages(config.engine.drivers().path_of(name))
}

fn open_managed(
    abi: &'static Abi,
    comm: usize,
    path: Result<String>,
    mode: c_int,
    info: usize,
) -> Result<Arc<OpenFile>> {
    check_communicator(abi, comm)?;
    let transport = transport::for_communicator(comm)?;
    // Errors of this rank alone are passed to the collective open, which reports them on all ranks.
    let (name, asked) = match &path {
        Ok(path) => (path.clone(), hints(abi, path, info)),
        Err(error) => (String::new(), Err(error.clone())),
    };
    let (mut hints, fault) = match asked {
        Ok(hints) => (hints, None),
        Err(error) => (Hints::default(), Some(error)),
    };
    let settings = &config::get().settings;
    // Bytes that other ranks of the node have staged are visible in any case.
    let makes = hints.aggio_defer == Switch::Enable && one_node::is_likely(abi, transport.size());
    let or_buffers = settings.stage == StagePlace::Memory;
    let is_anywhere = settings.stage != StagePlace::Nowhere;
    let stages = is_anywhere.then_some(Stages { makes, or_buffers });
    adapt_to_hdf5(&mut hints);
    let (amode, report) = (amode::from_mpi(abi.constants, mode), settings.report);
    let new = OpenRequest::new(name.clone(), amode, hints);
    let request = OpenRequest { fault, report, stages, ..new };
    let engine = progress::wait(config::get().engine.open(transport, request))?;
    register(abi, comm, name, engine)
}

/// The hints for a file that is opened with `info`.
fn hints(abi: &Abi, path: &str, info: usize) -> Result<Hints> {
    let config = config::get();
    let mut complaints = Diagnostics::default();
    let pairs = info::pairs(abi, info)?;
    let absolute =
        pattern::absolute(config.engine.drivers().path_of(path), settings::working_directory);
    let hints = Hints::resolve(&config.sources, &absolute, &pairs, &mut complaints);
    complaints.report(config.settings.strict)?;
    Ok(hints)
}

/// Sets other defaults for HDF5. Staged writes remain allowed, because all ranks see them.
fn adapt_to_hdf5(hints: &mut Hints) {
    if hdf5::may_be_calling(hints) && hdf5::is_calling() {
        if hints.aggio_defer == Switch::Enable {
            hints.note("aggio_defer", "disable");
        }
        if hints.aggio_views_alone == Switch::Automatic {
            hints.note("aggio_views_alone", "enable");
        }
        if hints.aggio_chunks == Switch::Automatic {
            hints.note("aggio_chunks", "enable");
        }
    }
}

fn check_communicator(abi: &Abi, comm: usize) -> Result<()> {
    if comm == abi.handles.comm_null || comm == 0 {
        return Err(Error::new(ErrorClass::Comm, "the communicator is MPI_COMM_NULL"));
    }
    let mut inter: c_int = 0;
    // SAFETY: the program claims that `comm` is a communicator; the library checks it.
    if unsafe { mpi::Comm_test_inter(comm, &raw mut inter) } != 0 {
        return Err(Error::new(ErrorClass::Comm, "the communicator is not valid"));
    }
    if inter != 0 {
        let text = "a file cannot be opened on an intercommunicator";
        return Err(Error::new(ErrorClass::Comm, text));
    }
    Ok(())
}

/// Makes the open file known under a handle.
fn register(abi: &Abi, comm: usize, path: String, engine: Arc<File>) -> Result<Arc<OpenFile>> {
    let mut group = 0usize;
    // SAFETY: the variable has room for a handle of any ABI.
    let group = unsafe {
        let place = (&raw mut group).cast();
        mpi::Comm_group(comm, place);
        abi.load(place, 0)
    };
    tell(&engine);
    rescue::note_opener();
    handles::insert(|handle| OpenFile {
        handle,
        path,
        comm,
        group,
        engine,
        errhandler: Mutex::new(attached::default_handler()),
        types: Mutex::new(Types::bytes(abi)),
    })
}

/// Logs an opened file, and its hints if the settings ask for them.
fn tell(engine: &File) {
    if engine.transport().rank() != 0 {
        return;
    }
    let (path, amode) = (engine.path(), engine.amode());
    agg_core::log!(Level::Info, "{path}: opened {amode} by {}", engine.transport().size());
    if config::get().settings.display_hints {
        for hint in engine.info() {
            let source = hint.source();
            log::report(format_args!("{path}: {} = {} ({source})", hint.name, hint.value));
        }
    }
}

//! Integers that stand for files in Fortran, and Fortran's ways to create error handlers.

use crate::abi::{Abi, Kind};
use crate::arguments::FileHandle;
use crate::attached::{self, Language};
use crate::missing::missing_function;
use crate::resolve::{self, Symbol};
use crate::{active, forward, handles, mpi};
use libc::c_int;

/// Fortran's integers for our files start here; smaller ones are the real library's.
const FIRST: c_int = 0x4000_0000;

/// The integer for a file of ours.
fn integer(fh: FileHandle) -> Option<c_int> {
    let slot = handles::slot(fh)?;
    handles::by_slot(slot)?;
    Some(FIRST + c_int::try_from(slot).ok()?)
}

/// The file of ours that an integer stands for; a closed one is `MPI_FILE_NULL`.
fn file(abi: &Abi, integer: c_int) -> Option<FileHandle> {
    let slot = u32::try_from(integer.checked_sub(FIRST)?).ok()?;
    Some(handles::by_slot(slot).map_or(abi.handles.file_null, |file| file.handle))
}

/// `MPI_File_c2f`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn c2f(_: &Abi, fh: FileHandle) -> c_int {
    // SAFETY: the caller's argument, passed on.
    integer(fh).unwrap_or_else(|| unsafe {
        match resolve::function(c"PMPI_File_c2f") {
            Some(_) => forward::MPI_File_c2f(fh),
            None => forward::MPI_File_toint(fh),
        }
    })
}

/// `MPI_File_f2c`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn f2c(abi: &Abi, fh: c_int) -> FileHandle {
    // SAFETY: the caller's argument, passed on.
    file(abi, fh).unwrap_or_else(|| unsafe {
        match resolve::function(c"PMPI_File_f2c") {
            Some(_) => forward::MPI_File_f2c(fh),
            None => forward::MPI_File_fromint(fh),
        }
    })
}

/// `MPI_File_toint`, the MPI-5 name.
///
/// # Safety
/// As MPI demands.
pub unsafe fn toint(_: &Abi, fh: FileHandle) -> c_int {
    // SAFETY: the caller's argument, passed on.
    integer(fh).unwrap_or_else(|| unsafe {
        match resolve::function(c"PMPI_File_toint") {
            Some(_) => forward::MPI_File_toint(fh),
            None => forward::MPI_File_c2f(fh),
        }
    })
}

/// `MPI_File_fromint`, the MPI-5 name.
///
/// # Safety
/// As MPI demands.
pub unsafe fn fromint(abi: &Abi, fh: c_int) -> FileHandle {
    // SAFETY: the caller's argument, passed on.
    file(abi, fh).unwrap_or_else(|| unsafe {
        match resolve::function(c"PMPI_File_fromint") {
            Some(_) => forward::MPI_File_fromint(fh),
            None => forward::MPI_File_f2c(fh),
        }
    })
}

/// The error handler that a Fortran integer stands for: the same number where handles are ints.
fn errhandler_of(integer: c_int) -> usize {
    let ints = active::abi().is_some_and(|abi| abi.kind == Kind::Mpich);
    if ints {
        return integer.cast_unsigned() as usize;
    }
    // SAFETY: the integer was made by the real library.
    unsafe {
        match mpi::symbol::Errhandler_f2c.address() {
            Some(_) => mpi::Errhandler_f2c(integer),
            None => mpi::Errhandler_fromint(integer),
        }
    }
}

/// Lets the real function create the error handler, then remembers that it is a Fortran one.
///
/// # Safety
/// The arguments are those of a Fortran call of `MPI_FILE_CREATE_ERRHANDLER`; `ierror` is null if
/// it is omitted.
unsafe fn create_errhandler(
    symbol: &Symbol,
    function: usize,
    errhandler: *mut c_int,
    ierror: *mut c_int,
) {
    let Some(address) = symbol.address() else {
        let code = missing_function(&symbol.name().to_string_lossy());
        if !ierror.is_null() {
            // SAFETY: the caller's variable.
            unsafe { *ierror = code };
        }
        return;
    };
    // SAFETY: the real function of the same name and the caller's arguments.
    unsafe {
        let real: unsafe extern "C" fn(usize, *mut c_int, *mut c_int) =
            std::mem::transmute(address);
        real(function, errhandler, ierror);
        if active::abi().is_some() && (ierror.is_null() || *ierror == 0) {
            attached::learn(errhandler_of(*errhandler), function, Language::Fortran);
        }
    }
}

macro_rules! create_errhandler_names {
    ($($name:literal)*) => {
        $(const _: () = {
            static REAL: Symbol = Symbol::new(concat!($name, "\0"));
            // SAFETY: all Fortran layers pass these three references.
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn entry(
                function: usize,
                errhandler: *mut c_int,
                ierror: *mut c_int,
            ) {
                // SAFETY: the caller's arguments, passed on.
                unsafe { create_errhandler(&REAL, function, errhandler, ierror) }
            }
        };)*
    };
}

// Every name under which a Fortran layer creates an error handler for files. Open MPI's do not pass
// through the C function, MPICH's lose the fact that the function is Fortran.
create_errhandler_names! {
    "mpi_file_create_errhandler" "mpi_file_create_errhandler_" "mpi_file_create_errhandler__"
    "MPI_FILE_CREATE_ERRHANDLER" "MPI_File_create_errhandler_f" "MPI_File_create_errhandler_f08"
    "pmpi_file_create_errhandler" "pmpi_file_create_errhandler_" "pmpi_file_create_errhandler__"
    "PMPI_FILE_CREATE_ERRHANDLER" "PMPI_File_create_errhandler_f" "PMPI_File_create_errhandler_f08"
    "ompi_file_create_errhandler_f" "mpi_file_create_errhandler_f08_"
    "pmpi_file_create_errhandler_f08_" "pmpir_file_create_errhandler_f08_"
}

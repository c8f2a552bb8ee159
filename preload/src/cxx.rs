//! Error handlers of the C++ bindings. The program's function takes an object of the bindings,
//! which only they can make; Open MPI's make the handler behind the C interface as well. Therefore
//! this library interposes the one C++ function that makes them.

use crate::arguments::FileHandle;
use crate::attached::{self, Language};
use crate::{active, resolve};
use libc::{c_char, c_int};
use std::mem::transmute;

/// File, code, message, function.
type OpenMpi = unsafe extern "C" fn(*mut FileHandle, *mut c_int, *const c_char, usize);
/// Kind of object (1 is a file), file, code, function.
type Mpich = unsafe extern "C" fn(c_int, *mut FileHandle, *mut c_int, usize);

/// The bindings' own way to call a C++ handler with an object for the file.
enum Invoke {
    OpenMpi(OpenMpi),
    Mpich(Mpich),
}

fn invoke() -> Option<Invoke> {
    // SAFETY: these are the signatures in Open MPI 4 and in MPICH 3 and 4.
    unsafe {
        if let Some(address) = resolve::function(c"ompi_mpi_cxx_file_errhandler_invoke") {
            return Some(Invoke::OpenMpi(transmute::<usize, OpenMpi>(address)));
        }
        let address = resolve::function(c"MPIR_Call_errhandler_function")?;
        Some(Invoke::Mpich(transmute::<usize, Mpich>(address)))
    }
}

/// `MPI::File::Create_errhandler`. An object is returned in memory of the caller: first a pointer
/// to its table of functions, then the handle.
///
/// # Safety
/// As C++ calls it.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3MPI4File17Create_errhandlerEPFvRS0_PizE(
    object: *mut usize,
    function: usize,
) -> *mut usize {
    let Some(real) = resolve::function(c"_ZN3MPI4File17Create_errhandlerEPFvRS0_PizE") else {
        return object;
    };
    // SAFETY: the caller's arguments, passed on to the function that was meant.
    let object = unsafe {
        let real: unsafe extern "C" fn(*mut usize, usize) -> *mut usize = std::mem::transmute(real);
        real(object, function)
    };
    if let (Some(_), Some(abi)) = (invoke(), active::abi()) {
        // SAFETY: the object holds a pointer and then the handle, as said above.
        let handle = unsafe { abi.load(object.add(1).cast(), 0) };
        attached::learn(handle, function, Language::Cxx);
    }
    object
}

/// Calls the program's `function` for an error of `fh`.
pub fn call(function: usize, mut fh: FileHandle, code: &mut c_int) {
    const FILE: c_int = 1;
    // SAFETY: the program gave the function to `MPI::File::Create_errhandler`.
    unsafe {
        match invoke() {
            Some(Invoke::OpenMpi(call)) => call(&raw mut fh, code, std::ptr::null(), function),
            Some(Invoke::Mpich(call)) => {
                call(FILE, &raw mut fh, code, function);
                // Their functions call the handler again for every code that is not 0, so the C
                // functions return 0 after a handler of theirs.
                *code = 0;
            }
            None => {}
        }
    }
}

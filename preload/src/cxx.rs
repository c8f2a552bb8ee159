//! Error handlers of Open MPI's C++ bindings. They are made behind the C interface, so this library
//! stands before the one C++ function that makes them.

use crate::entry::FileHandle;
use crate::errhandler::{self, Language};
use crate::resolve;
use libc::c_int;

/// Calls a C++ handler with an object for the file: the bindings' own function.
type Invoke = unsafe extern "C" fn(*mut FileHandle, *mut c_int, *const libc::c_char, usize);

fn invoke() -> Option<Invoke> {
    let address = resolve::function(c"ompi_mpi_cxx_file_errhandler_invoke")?;
    // SAFETY: that is its signature in Open MPI 4.
    Some(unsafe { std::mem::transmute::<usize, Invoke>(address) })
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
    // MPICH's bindings make it by a call of the C interface, which this library sees.
    if invoke().is_some() {
        // SAFETY: see above for what the object holds.
        errhandler::learn(unsafe { *object.add(1) }, function, Language::Cxx);
    }
    object
}

/// Calls the program's `function` for an error of `fh`.
pub fn call(function: usize, mut fh: FileHandle, code: &mut c_int) {
    if let Some(invoke) = invoke() {
        // SAFETY: the program gave the function to `MPI::File::Create_errhandler`.
        unsafe { invoke(&raw mut fh, code, std::ptr::null(), function) };
    }
}

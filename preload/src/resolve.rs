//! Finding the real MPI library in this process, without being linked against it.
//!
//! Functions are looked up with `RTLD_NEXT`, so that tools stacked behind this library keep their
//! turn. Python loads MPI `RTLD_LOCAL`, where `RTLD_NEXT` sees nothing; then every loaded object is
//! asked. A negative answer is never remembered: the library may be loaded later.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A function of the real library, looked up at its first use.
pub struct Symbol {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Symbol {
    /// A slot for the function `name`, which ends with a zero byte; nothing is looked up yet.
    ///
    /// # Panics
    /// While compiling, if `name` is not a C string.
    pub const fn new(name: &'static str) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Self { name, address: AtomicUsize::new(0) },
            Err(_) => panic!("the name of a symbol ends with its only zero byte"),
        }
    }

    /// The function's address, `None` while no loaded library has it.
    #[inline]
    pub fn address(&self) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            found => Some(found),
        }
    }

    /// The name that is looked up.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    #[cold]
    fn find(&self) -> Option<usize> {
        let found = function(self.name)?;
        self.address.store(found, Ordering::Relaxed);
        Some(found)
    }
}

/// The address of the real function `name`: the next one behind this library, else the one of an
/// MPI library that was loaded privately.
pub fn function(name: &CStr) -> Option<usize> {
    // SAFETY: `name` is a C string; RTLD_NEXT needs no handle.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    address_of(next).or_else(|| in_mpi_library(name))
}

/// The address of the data object `name`.
///
/// The global scope is asked first: an executable may hold its own copy of the object (a COPY
/// relocation), and then that copy is the one everybody uses; `RTLD_NEXT` would find the other.
pub fn data(name: &CStr) -> Option<usize> {
    // SAFETY: `name` is a C string; RTLD_DEFAULT needs no handle.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    address_of(global).or_else(|| in_mpi_library(name))
}

fn address_of(pointer: *mut c_void) -> Option<usize> {
    (!pointer.is_null()).then_some(pointer as usize)
}

/// Handle of the MPI library that only a search through all objects finds; null if not yet found.
static PRIVATE_LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn in_mpi_library(name: &CStr) -> Option<usize> {
    let mut library = PRIVATE_LIBRARY.load(Ordering::Acquire);
    if library.is_null() {
        library = search_loaded_objects()?;
        PRIVATE_LIBRARY.store(library, Ordering::Release);
    }
    // SAFETY: the handle came from dlopen and is never closed.
    address_of(unsafe { libc::dlsym(library, name.as_ptr()) })
}

/// The loaded object that defines `PMPI_Comm_rank`, kept open.
fn search_loaded_objects() -> Option<*mut c_void> {
    loaded_objects().iter().find_map(|path| definer_reached_from(path))
}

/// The paths of all loaded objects, with the zero byte at the end.
pub fn loaded_objects() -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = Vec::new();
    // SAFETY: the callback gets back the pointer to `paths`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect_path), (&raw mut paths).cast()) };
    paths
}

unsafe extern "C" fn collect_path(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    paths: *mut c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a valid record, and our caller a pointer to its vector.
    unsafe {
        let name = (*info).dlpi_name;
        if !name.is_null() && *name != 0 {
            let paths = &mut *paths.cast::<Vec<Vec<u8>>>();
            paths.push(CStr::from_ptr(name).to_bytes_with_nul().to_vec());
        }
    }
    0
}

/// If the object at `path` or one that it needs defines MPI, a handle on the defining object.
fn definer_reached_from(path: &[u8]) -> Option<*mut c_void> {
    // SAFETY: the path ends with a zero byte.
    let handle = unsafe { open_loaded(path.as_ptr().cast()) }?;
    // SAFETY: `handle` is open; dladdr writes only into `place`.
    unsafe {
        let symbol = libc::dlsym(handle, c"PMPI_Comm_rank".as_ptr());
        let mut place: libc::Dl_info = std::mem::zeroed();
        let known = !symbol.is_null() && libc::dladdr(symbol, &raw mut place) != 0;
        let definer = known.then(|| open_loaded(place.dli_fname)).flatten();
        libc::dlclose(handle);
        definer
    }
}

/// A handle on the object at `path` if it is loaded.
///
/// # Safety
/// `path` is a C string.
pub unsafe fn open_loaded(path: *const libc::c_char) -> Option<*mut c_void> {
    // SAFETY: the caller's promise; NOLOAD loads nothing.
    let handle = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}

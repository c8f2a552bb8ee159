//! The MPI library of this process, and its constants and handles.

mod constants;
mod handles;

pub use constants::Constants;
#[cfg(test)]
pub use constants::{MPICH, OMPI, STD};
pub use handles::Handles;

use crate::resolve;
use libc::c_int;
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

/// The three application binary interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI 4 and 5: handles are addresses of objects.
    OpenMpi,
    /// MPICH, Intel MPI, MVAPICH, Cray MPICH: handles are C ints (`MPI_File` is a pointer).
    Mpich,
    /// The MPI-5 standard ABI: handles have pointer size, predefined ones are small numbers.
    Standard,
}

/// The MPI of this process.
#[derive(Debug)]
pub struct Abi {
    /// Which interface it has.
    pub kind: Kind,
    /// Its integer constants.
    pub constants: &'static Constants,
    /// Its predefined handles.
    pub handles: Handles,
}

impl Abi {
    /// A handle argument as it arrived in a register: where handles are C ints, the upper half of
    /// the register is undefined.
    #[inline]
    pub fn normalise(&self, raw: usize) -> usize {
        if self.kind == Kind::Mpich { raw as u32 as usize } else { raw }
    }

    /// Reads element `index` of an array of handles (not of files, which are always pointers).
    ///
    /// # Safety
    /// `array` points to at least `index + 1` handles of this ABI.
    pub unsafe fn load(&self, array: *const c_void, index: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match self.kind {
                Kind::Mpich => *array.cast::<u32>().add(index) as usize,
                _ => *array.cast::<usize>().add(index),
            }
        }
    }

    /// Writes element `index` of an array of handles (not of files, which are always pointers).
    ///
    /// # Safety
    /// `array` has room for at least `index + 1` handles of this ABI.
    pub unsafe fn store(&self, array: *mut c_void, index: usize, handle: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.kind {
                Kind::Mpich => *array.cast::<u32>().add(index) = handle as u32,
                _ => *array.cast::<usize>().add(index) = handle,
            }
        }
    }

    /// Size of `MPI_Status`, and where in it the field `MPI_ERROR` is, in bytes.
    fn status_layout(&self) -> (usize, usize) {
        match self.kind {
            Kind::OpenMpi => (24, 8),
            Kind::Mpich => (20, 16),
            Kind::Standard => (32, 8),
        }
    }

    /// The address of element `index` of an array of statuses; of the ABI's constant for ignored
    /// statuses, that for one ignored status, which is the same.
    pub fn status_at(&self, statuses: *mut c_void, index: usize) -> *mut c_void {
        if self.ignores_status(statuses) || statuses.is_null() {
            return statuses;
        }
        statuses.wrapping_byte_add(index * self.status_layout().0)
    }

    /// Sets the field `MPI_ERROR` of element `index` of an array of statuses.
    ///
    /// # Safety
    /// `statuses` has at least `index + 1` elements.
    pub unsafe fn set_status_error(&self, statuses: *mut c_void, index: usize, code: c_int) {
        let field = self.status_at(statuses, index).wrapping_byte_add(self.status_layout().1);
        // SAFETY: the caller's promise; the field is a C int.
        unsafe { *field.cast::<c_int>() = code };
    }

    /// Whether a program passes `status` to ask for none.
    pub fn ignores_status(&self, status: *const c_void) -> bool {
        status as usize == self.constants.status_ignore as usize
    }

    /// Whether a call returns the code that its error handler left, as in MPICH; Open MPI returns
    /// the original error.
    pub fn errors_are_what_handlers_leave(&self) -> bool {
        match self.kind {
            Kind::OpenMpi => false,
            Kind::Mpich => true,
            Kind::Standard => !library_version().is_some_and(|text| text.contains("Open MPI")),
        }
    }

    /// A predefined object of Open MPI by its symbol name; `None` for other ABIs and unknown names.
    pub fn data_symbol(&self, name: &str) -> Option<usize> {
        if self.kind != Kind::OpenMpi {
            return None;
        }
        resolve::data(&CString::new(name).ok()?)
    }
}

static ABI: OnceLock<Abi> = OnceLock::new();

/// The MPI of this process; `None` while there is none. A positive answer is final.
pub fn get() -> Option<&'static Abi> {
    match ABI.get() {
        Some(abi) => Some(abi),
        None => detect().map(|abi| ABI.get_or_init(|| abi)),
    }
}

/// Decides in the order standard, Open MPI, MPICH: a future Open MPI may export the standard ABI
/// beside its own objects, and MPICH has no object that identifies it.
fn detect() -> Option<Abi> {
    resolve::function(c"PMPI_Comm_rank")?;
    if speaks_standard_abi() {
        let handles = Handles::standard();
        return Some(Abi { kind: Kind::Standard, constants: &constants::STD, handles });
    }
    if resolve::data(c"ompi_mpi_comm_world").is_some() {
        let find = |name: &str| {
            CString::new(name).ok().and_then(|name: CString| resolve::data(&name)).unwrap_or(0)
        };
        let handles = Handles::open_mpi(find);
        return Some(Abi { kind: Kind::OpenMpi, constants: &constants::OMPI, handles });
    }
    is_mpich_family().then(|| Abi {
        kind: Kind::Mpich,
        constants: &constants::MPICH,
        handles: Handles::mpich(),
    })
}

/// `MPI_Abi_get_version` alone proves nothing: MPICH 5 also has it with its own ABI and then
/// answers version -1.
fn speaks_standard_abi() -> bool {
    let Some(address) = resolve::function(c"MPI_Abi_get_version") else { return false };
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: MPI-5 declares `int MPI_Abi_get_version(int *major, int *minor)`, callable any time.
    let code = unsafe {
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
            std::mem::transmute(address);
        version(&raw mut major, &raw mut minor)
    };
    code == 0 && major >= 1
}

/// Whether the library belongs to MPICH's family, which shares MPICH's ABI.
fn is_mpich_family() -> bool {
    const FAMILY: [&str; 6] = ["MPICH", "Intel(R) MPI", "MVAPICH", "CRAY", "ParaStation", "Cray"];
    let Some(text) = library_version() else { return false };
    let known = FAMILY.iter().any(|name| text.contains(name));
    if !known {
        crate::report_unknown_mpi(&text);
    }
    known
}

/// The text of `MPI_Get_library_version` (legal before `MPI_Init`).
pub fn library_version() -> Option<String> {
    let address = resolve::function(c"PMPI_Get_library_version")?;
    // MPI_MAX_LIBRARY_VERSION_STRING is 256 in Open MPI and 8192 in the others.
    let mut text = vec![0u8; 8193];
    let mut length: c_int = 0;
    // SAFETY: the buffer has room for the longest answer of every ABI.
    unsafe {
        let version: unsafe extern "C" fn(*mut u8, *mut c_int) -> c_int =
            std::mem::transmute(address);
        version(text.as_mut_ptr(), &raw mut length);
    }
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    Some(text.to_string_lossy().into_owned())
}

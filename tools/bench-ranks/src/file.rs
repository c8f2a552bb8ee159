//! The few `MPI_File_*` calls that the benchmark makes, with errors as values.

use crate::datatype::Datatype;
use aggio_patterns::View;
use mpi::ffi::*;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

/// An open MPI file on `MPI_COMM_WORLD`.
pub(crate) struct MpiFile {
    handle: MPI_File,
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Operation {
    Write,
    Read,
}

/// Memory of one call: `count` datatypes from `address` on.
pub(crate) struct Memory {
    pub(crate) address: *mut c_void,
    pub(crate) count: c_int,
    pub(crate) datatype: MPI_Datatype,
}

/// An error code as a message.
pub(crate) fn check(what: &str, code: c_int) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    let mut text = [0u8; 4096];
    let mut len: c_int = 0;
    // SAFETY: `text` is larger than MPI_MAX_ERROR_STRING of every MPI.
    unsafe { MPI_Error_string(code, text.as_mut_ptr().cast(), &mut len) };
    Err(format!("{what}: {}", String::from_utf8_lossy(&text[..len.max(0) as usize])))
}

impl MpiFile {
    pub(crate) fn open(path: &str, operation: Operation) -> Result<Self, String> {
        let name = CString::new(path).map_err(|why| why.to_string())?;
        let mut handle = MaybeUninit::<MPI_File>::uninit();
        let amode = match operation {
            Operation::Write => MPI_MODE_CREATE | MPI_MODE_RDWR,
            Operation::Read => MPI_MODE_RDONLY,
        };
        // SAFETY: all pointers live during the call; the communicator and the info are predefined.
        let code = unsafe {
            MPI_File_open(
                RSMPI_COMM_WORLD,
                name.as_ptr(),
                amode as c_int,
                RSMPI_INFO_NULL,
                handle.as_mut_ptr(),
            )
        };
        check("MPI_File_open", code)?;
        // SAFETY: MPI_File_open succeeded and has stored the handle.
        Ok(Self { handle: unsafe { handle.assume_init() } })
    }

    /// Sets the view; one that shows nothing is left contiguous, for no call uses it.
    pub(crate) fn set_view(&mut self, view: &View) -> Result<(), String> {
        if view.is_contiguous() || view.filetype.bytes() == 0 {
            return self.set_filetype(view.displacement, None);
        }
        let filetype = Datatype::with_extent(&view.filetype, view.extent)?;
        self.set_filetype(view.displacement, Some(&filetype))
    }

    fn set_filetype(&mut self, offset: u64, filetype: Option<&Datatype>) -> Result<(), String> {
        // SAFETY: the handle is open, the byte type is predefined, a filetype is committed.
        check("MPI_File_set_view", unsafe {
            MPI_File_set_view(
                self.handle,
                offset as MPI_Offset,
                RSMPI_UINT8_T,
                filetype.map_or(RSMPI_UINT8_T, Datatype::handle),
                c"native".as_ptr(),
                RSMPI_INFO_NULL,
            )
        })
    }

    /// One blocking call.
    ///
    /// # Safety
    /// `memory` must lie in one allocation that nobody else uses during the call.
    pub(crate) unsafe fn transfer(
        &mut self,
        operation: Operation,
        collective: bool,
        position: u64,
        memory: &Memory,
    ) -> Result<(), String> {
        let mut status = MaybeUninit::<MPI_Status>::uninit();
        let (at, status) = (position as MPI_Offset, status.as_mut_ptr());
        let Memory { address, count, datatype } = *memory;
        // SAFETY: the caller vouches for the memory; the handle is open.
        let code = unsafe {
            match (operation, collective) {
                (Operation::Write, true) => {
                    MPI_File_write_at_all(self.handle, at, address, count, datatype, status)
                }
                (Operation::Write, false) => {
                    MPI_File_write_at(self.handle, at, address, count, datatype, status)
                }
                (Operation::Read, true) => {
                    MPI_File_read_at_all(self.handle, at, address, count, datatype, status)
                }
                (Operation::Read, false) => {
                    MPI_File_read_at(self.handle, at, address, count, datatype, status)
                }
            }
        };
        check("transfer", code)
    }

    /// One nonblocking collective call.
    ///
    /// # Safety
    /// `memory` must lie in one allocation that nobody else uses until the request is complete.
    pub(crate) unsafe fn start(
        &mut self,
        operation: Operation,
        position: u64,
        memory: &Memory,
    ) -> Result<MPI_Request, String> {
        let mut request = MaybeUninit::<MPI_Request>::uninit();
        let Memory { address, count, datatype } = *memory;
        let (at, to) = (position as MPI_Offset, request.as_mut_ptr());
        // SAFETY: the caller vouches for the memory; the handle is open.
        let code = unsafe {
            match operation {
                Operation::Write => {
                    MPI_File_iwrite_at_all(self.handle, at, address, count, datatype, to)
                }
                Operation::Read => {
                    MPI_File_iread_at_all(self.handle, at, address, count, datatype, to)
                }
            }
        };
        check("nonblocking transfer", code)?;
        // SAFETY: the call succeeded and has stored the request.
        Ok(unsafe { request.assume_init() })
    }

    pub(crate) fn close(mut self) -> Result<(), String> {
        let mut handle = std::mem::replace(&mut self.handle, null_mut());
        // SAFETY: the handle is open and not used afterwards.
        check("MPI_File_close", unsafe { MPI_File_close(&mut handle) })
    }
}

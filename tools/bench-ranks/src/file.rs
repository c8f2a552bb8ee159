//! The few `MPI_File_*` calls that the benchmark makes, with errors as values.

use mpi::ffi::*;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

/// An open MPI file on `MPI_COMM_WORLD`.
pub(crate) struct MpiFile {
    handle: MPI_File,
}

fn check(what: &str, code: c_int) -> Result<(), String> {
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
    pub(crate) fn open(path: &str, write: bool) -> Result<Self, String> {
        let name = CString::new(path).map_err(|why| why.to_string())?;
        let mut handle = MaybeUninit::<MPI_File>::uninit();
        let amode = if write { MPI_MODE_CREATE | MPI_MODE_RDWR } else { MPI_MODE_RDONLY };
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

    pub(crate) fn set_contiguous_view(&mut self, displacement: usize) -> Result<(), String> {
        // SAFETY: MPI_BYTE is predefined.
        unsafe { self.set_view(displacement, RSMPI_UINT8_T) }
    }

    /// Every `size`-th piece of `piece` bytes, beginning with the `rank`-th.
    pub(crate) fn set_interleaved_view(
        &mut self,
        piece: usize,
        rank: usize,
        size: usize,
    ) -> Result<(), String> {
        let mut block = MaybeUninit::<MPI_Datatype>::uninit();
        let mut filetype = MaybeUninit::<MPI_Datatype>::uninit();
        // SAFETY: the constructors store the handles that the following calls use.
        unsafe {
            check(
                "MPI_Type_contiguous",
                MPI_Type_contiguous(piece as c_int, RSMPI_UINT8_T, block.as_mut_ptr()),
            )?;
            let extent = (piece * size) as MPI_Aint;
            check(
                "MPI_Type_create_resized",
                MPI_Type_create_resized(block.assume_init(), 0, extent, filetype.as_mut_ptr()),
            )?;
            check("MPI_Type_commit", MPI_Type_commit(filetype.as_mut_ptr()))?;
            self.set_view(rank * piece, filetype.assume_init())?;
            MPI_Type_free(block.as_mut_ptr());
            MPI_Type_free(filetype.as_mut_ptr());
        }
        Ok(())
    }

    /// # Safety
    /// `filetype` must be a committed datatype.
    unsafe fn set_view(&mut self, displacement: usize, filetype: MPI_Datatype) -> Result<(), String> {
        // SAFETY: the handle is open and the caller vouches for the datatype.
        check("MPI_File_set_view", unsafe {
            MPI_File_set_view(
                self.handle,
                displacement as MPI_Offset,
                RSMPI_UINT8_T,
                filetype,
                c"native".as_ptr(),
                RSMPI_INFO_NULL,
            )
        })
    }

    pub(crate) fn write(&mut self, bytes: &[u8], collective: bool) -> Result<(), String> {
        let call = if collective { MPI_File_write_all } else { MPI_File_write };
        let (buffer, count) = (bytes.as_ptr() as *const c_void, bytes.len() as c_int);
        let mut status = MaybeUninit::<MPI_Status>::uninit();
        // SAFETY: the buffer holds `count` bytes; the status is stored by the call.
        check("write", unsafe {
            call(self.handle, buffer, count, RSMPI_UINT8_T, status.as_mut_ptr())
        })
    }

    pub(crate) fn read(&mut self, bytes: &mut [u8], collective: bool) -> Result<(), String> {
        let call = if collective { MPI_File_read_all } else { MPI_File_read };
        let (buffer, count) = (bytes.as_mut_ptr() as *mut c_void, bytes.len() as c_int);
        let mut status = MaybeUninit::<MPI_Status>::uninit();
        // SAFETY: the buffer has room for `count` bytes; the status is stored by the call.
        check("read", unsafe {
            call(self.handle, buffer, count, RSMPI_UINT8_T, status.as_mut_ptr())
        })
    }

    pub(crate) fn close(mut self) -> Result<(), String> {
        let mut handle = std::mem::replace(&mut self.handle, null_mut());
        // SAFETY: the handle is open and not used afterwards.
        check("MPI_File_close", unsafe { MPI_File_close(&mut handle) })
    }
}

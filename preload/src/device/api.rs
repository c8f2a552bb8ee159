//! The calls of a driver: it recognises addresses in a device's memory and copies from and to them.

use agg_core::file::Direction;
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;

/// Where device memory is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The driver that knows the address.
    pub(super) api: &'static dyn GpuApi,
    /// The driver's context, 0 if the memory belongs to none.
    pub(super) context: usize,
    /// The device, by the driver's number or handle.
    pub(super) device: usize,
}

impl Place {
    /// Whether one call of the driver can copy from or to both.
    pub(super) fn joins(&self, other: &Place) -> bool {
        std::ptr::addr_eq(self.api, other.api)
            && (self.context, self.device) == (other.context, other.device)
    }
}

/// A piece of device memory, and memory of the host for its bytes.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// First byte in the device's memory.
    pub(super) device: usize,
    /// First byte in the host's memory.
    pub(super) host: *mut u8,
    /// Number of bytes.
    pub(super) len: usize,
}

/// Equal pieces at equal distances.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// The first piece.
    pub(super) first: Piece,
    /// Number of pieces.
    pub(super) count: usize,
    /// The distance of pieces in the device's memory, at least their length.
    pub(super) device_pitch: usize,
    /// The same in the host's memory.
    pub(super) host_pitch: usize,
}

/// A driver whose library the program has loaded.
pub(super) trait GpuApi: Send + Sync {
    /// Where the address is in a device's memory; `None` if the processor can access it, as with
    /// managed and registered memory.
    ///
    /// # Errors
    /// `Io` if neither the driver nor the processor can access the address.
    fn place(&'static self, address: usize) -> Result<Option<Place>>;

    /// Copies a piece: to the device for a read of the file, to the host for a write. Waits for
    /// kernels as the driver's own synchronous copy does.
    ///
    /// # Errors
    /// `Io` with the driver's call and code.
    ///
    /// # Safety
    /// The piece is valid on both sides.
    unsafe fn copy(&self, place: Place, direction: Direction, piece: Piece) -> Result<()>;

    /// As [`GpuApi::copy`] for many pieces at once; false if that is impossible, and then any of
    /// the bytes may have been copied.
    ///
    /// # Safety
    /// All pieces are valid on both sides.
    unsafe fn copy_rows(&self, _place: Place, _direction: Direction, _rows: Rows) -> bool {
        false
    }

    /// Pins memory of the host, so that copies are fast. A failure only makes them slow.
    ///
    /// # Safety
    /// The memory stays mapped until the process ends.
    unsafe fn pin(&self, place: Place, start: *mut u8, len: usize);
}

/// The functions of a driver's library.
macro_rules! functions {
    ($($name:ident($($ty:ty),* $(,)?) -> $ret:ty;)*) => {
        /// The library's functions, by their names.
        #[allow(non_snake_case, reason = "the names are the library's")]
        struct Functions { $($name: unsafe extern "C" fn($($ty),*) -> $ret,)* }

        impl Functions {
            /// `None` if the library lacks one.
            fn of(library: $crate::device::library::Library) -> Option<Self> {
                Some(Self { $($name: {
                    let name = const { concat!(stringify!($name), "\0") };
                    let name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
                    let address = library.function(name)?;
                    // SAFETY: the library's documentation gives the function this signature.
                    unsafe {
                        std::mem::transmute::<usize, unsafe extern "C" fn($($ty),*) -> $ret>(
                            address,
                        )
                    }
                },)* })
            }
        }
    };
}
pub(super) use functions;

/// The error of a driver's call.
pub(super) fn failed(call: &str, code: c_int, address: usize) -> Error {
    let text = format!("{call} failed with {code} for device memory at {address:#x}");
    Error::new(ErrorClass::Io, text)
}

/// `Ok` for the code of success.
///
/// # Errors
/// That of [`failed`].
pub(super) fn check(call: &str, code: c_int, address: usize) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(call, code, address)) }
}

/// The answer for an address about which a driver's call has failed: memory of the host if the
/// processor can read it.
///
/// # Errors
/// That of [`failed`].
pub(super) fn unless_unreadable(call: &str, code: c_int, address: usize) -> Result<Option<Place>> {
    let mut byte = 0u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
    // SAFETY: the kernel writes one byte to `byte`, and reports addresses that cannot be read.
    let got = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0)
    };
    let unreadable =
        got < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    if unreadable { Err(failed(call, code, address)) } else { Ok(None) }
}

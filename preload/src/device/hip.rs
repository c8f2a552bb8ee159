//! The driver of HIP.

use super::api::{GpuApi, Piece, Place, Rows, check, functions, unless_unreadable};
use super::library::Library;
use agg_core::Result;
use agg_core::file::Direction;
use libc::{c_int, c_uint, c_void};
use std::sync::OnceLock;

functions! {
    hipRuntimeGetVersion(*mut c_int) -> c_int;
    hipPointerGetAttributes(*mut Attributes, *const c_void) -> c_int;
    hipPeekAtLastError() -> c_int;
    hipGetLastError() -> c_int;
    hipGetDevice(*mut c_int) -> c_int;
    hipSetDevice(c_int) -> c_int;
    hipMemcpy(*mut c_void, *const c_void, usize, c_int) -> c_int;
    hipMemcpy2D(*mut c_void, usize, *const c_void, usize, usize, usize, c_int) -> c_int;
    hipHostRegister(*mut c_void, usize, c_uint) -> c_int;
}

/// What HIP tells about a pointer, with room for more.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: c_int,
    device: c_int,
    device_pointer: usize,
    host_pointer: usize,
    is_managed: c_int,
    flags: c_uint,
    rest: [u64; 4],
}

/// Codes for pointers that HIP does not know: invalid value, not initialised, no device.
const UNKNOWN: [c_int; 3] = [1, 3, 100];

/// The first version with the numbers of ROCm 6.
const ROCM_6: c_int = 60_000_000;

/// Pinned for all devices.
const PORTABLE: c_uint = 1;

const TO_DEVICE: c_int = 1;
const TO_HOST: c_int = 2;

/// The driver's library.
pub(super) struct Hip {
    functions: Functions,
    /// The kind of memory that only a device can access; ROCm 6 has changed the number.
    device_kind: OnceLock<c_int>,
}

impl Hip {
    /// The driver in a library; `None` if functions are missing.
    pub(super) fn of(library: Library) -> Option<Box<dyn GpuApi>> {
        Some(Box::new(Self { functions: Functions::of(library)?, device_kind: OnceLock::new() }))
    }

    fn device_kind(&self) -> c_int {
        *self.device_kind.get_or_init(|| {
            let mut version = 0;
            // SAFETY: the variable outlives the call.
            unsafe { (self.functions.hipRuntimeGetVersion)(&raw mut version) };
            if version < ROCM_6 { 1 } else { 2 }
        })
    }

    /// Does `work` with the device of a place as the thread's own: a copy waits for the kernels of
    /// that one.
    fn within(
        &self,
        place: Place,
        address: usize,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (mut old, device) = (0, place.device as c_int);
        // SAFETY: the variable outlives the calls.
        unsafe {
            check("hipGetDevice", (self.functions.hipGetDevice)(&raw mut old), address)?;
            if old == device {
                return work();
            }
            check("hipSetDevice", (self.functions.hipSetDevice)(device), address)?;
            let done = work();
            (self.functions.hipSetDevice)(old);
            done
        }
    }
}

impl GpuApi for Hip {
    fn place(&'static self, address: usize) -> Result<Option<Place>> {
        let kind = self.device_kind();
        let mut found = Attributes::default();
        // SAFETY: the attributes have room; the driver does not follow the address. The program
        // does not see the error of a call that is not its own.
        let code = unsafe {
            let before = (self.functions.hipPeekAtLastError)();
            let pointer = address as *const c_void;
            let code = (self.functions.hipPointerGetAttributes)(&raw mut found, pointer);
            if code != 0 && before == 0 {
                (self.functions.hipGetLastError)();
            }
            code
        };
        if UNKNOWN.contains(&code) {
            return Ok(None);
        }
        if code != 0 {
            return unless_unreadable("hipPointerGetAttributes", code, address);
        }
        let place = Place { api: self, context: 0, device: found.device.max(0) as usize };
        Ok((found.kind == kind && found.is_managed == 0).then_some(place))
    }

    unsafe fn copy(&self, place: Place, direction: Direction, piece: Piece) -> Result<()> {
        let Piece { device, host, len } = piece;
        let (memory, host): (*mut c_void, *mut c_void) = (device as *mut c_void, host.cast());
        let (to, from, kind) = match direction {
            Direction::Write => (host, memory, TO_HOST),
            Direction::Read => (memory, host, TO_DEVICE),
        };
        self.within(place, device, || {
            // SAFETY: the caller's promise.
            let code = unsafe { (self.functions.hipMemcpy)(to, from, len, kind) };
            check("hipMemcpy", code, device)
        })
    }

    unsafe fn copy_rows(&self, place: Place, direction: Direction, rows: Rows) -> bool {
        let Piece { device, host, len } = rows.first;
        let memory = (device as *mut c_void, rows.device_pitch);
        let other: (*mut c_void, usize) = (host.cast(), rows.host_pitch);
        let (to, from, kind) = match direction {
            Direction::Write => (other, memory, TO_HOST),
            Direction::Read => (memory, other, TO_DEVICE),
        };
        let done = self.within(place, device, || {
            // SAFETY: the caller's promise. The program does not see an error, since the rows are
            // copied one by one then.
            let code = unsafe {
                let before = (self.functions.hipPeekAtLastError)();
                let code =
                    (self.functions.hipMemcpy2D)(to.0, to.1, from.0, from.1, len, rows.count, kind);
                if code != 0 && before == 0 {
                    (self.functions.hipGetLastError)();
                }
                code
            };
            check("hipMemcpy2D", code, device)
        });
        done.is_ok()
    }

    unsafe fn pin(&self, place: Place, start: *mut u8, len: usize) {
        let _ = self.within(place, 0, || {
            // SAFETY: the caller's promise.
            let code = unsafe { (self.functions.hipHostRegister)(start.cast(), len, PORTABLE) };
            check("hipHostRegister", code, 0)
        });
    }
}

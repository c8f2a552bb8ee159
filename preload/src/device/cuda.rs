//! The driver of CUDA.

use super::api::{GpuApi, Piece, Place, Rows, check, functions, unless_unreadable};
use super::library::Library;
use agg_core::Result;
use agg_core::file::Direction;
use libc::{c_int, c_uint, c_void};

functions! {
    cuPointerGetAttributes(c_uint, *const c_int, *mut *mut c_void, u64) -> c_int;
    cuCtxGetCurrent(*mut usize) -> c_int;
    cuCtxPushCurrent_v2(usize) -> c_int;
    cuCtxPopCurrent_v2(*mut usize) -> c_int;
    cuDevicePrimaryCtxRetain(*mut usize, c_int) -> c_int;
    cuDevicePrimaryCtxRelease(c_int) -> c_int;
    cuMemcpyDtoH_v2(*mut c_void, u64, usize) -> c_int;
    cuMemcpyHtoD_v2(u64, *const c_void, usize) -> c_int;
    cuMemcpy2DUnaligned_v2(*const Copy2D) -> c_int;
    cuMemHostRegister_v2(*mut c_void, usize, c_uint) -> c_int;
}

/// One side of a copy of rows.
#[repr(C)]
#[derive(Default)]
struct Side {
    x: usize,
    y: usize,
    kind: c_uint,
    host: usize,
    device: u64,
    array: usize,
    pitch: usize,
}

/// A copy of rows: from, to, bytes of a row, rows.
#[repr(C)]
struct Copy2D {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
}

/// Attributes of a pointer: its context, kind of memory, whether that is managed, its device.
const ATTRIBUTES: [c_int; 4] = [1, 2, 8, 9];

/// Kinds of memory.
const HOST: c_uint = 1;
/// The one that only a device can access.
const DEVICE: c_uint = 2;

/// Codes for pointers that the driver does not know: invalid value, no `cuInit` so far, context
/// without unified addresses.
const UNKNOWN: [c_int; 3] = [1, 3, 201];

/// Pinned for all contexts.
const PORTABLE: c_uint = 1;

/// The driver's library.
pub(super) struct Cuda(Functions);

impl Cuda {
    /// The driver in a library; `None` if functions are missing.
    pub(super) fn of(library: Library) -> Option<Box<dyn GpuApi>> {
        Some(Box::new(Self(Functions::of(library)?)))
    }

    /// Does `work` in the context of a place. Memory of pools belongs to no context: for it the
    /// thread's own context serves, or else the main one of the device.
    fn within(
        &self,
        place: Place,
        address: usize,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (mut context, mut old) = (place.context, 0usize);
        let device = place.device as c_int;
        // SAFETY: all variables outlive the calls.
        unsafe {
            if context == 0 {
                check("cuCtxGetCurrent", (self.0.cuCtxGetCurrent)(&raw mut context), address)?;
                if context != 0 {
                    return work();
                }
                let retained = (self.0.cuDevicePrimaryCtxRetain)(&raw mut context, device);
                check("cuDevicePrimaryCtxRetain", retained, address)?;
            }
            let pushed = (self.0.cuCtxPushCurrent_v2)(context);
            let mut done = check("cuCtxPushCurrent", pushed, address);
            if done.is_ok() {
                done = work();
                (self.0.cuCtxPopCurrent_v2)(&raw mut old);
            }
            if place.context == 0 {
                (self.0.cuDevicePrimaryCtxRelease)(device);
            }
            done
        }
    }
}

impl GpuApi for Cuda {
    fn place(&'static self, address: usize) -> Result<Option<Place>> {
        // Attributes have up to 8 bytes.
        let mut values = [0u64; ATTRIBUTES.len()];
        let mut places = values.each_mut().map(|value| std::ptr::from_mut(value).cast());
        let count = ATTRIBUTES.len() as c_uint;
        // SAFETY: there is room for each attribute; the driver does not follow the address.
        let code = unsafe {
            (self.0.cuPointerGetAttributes)(
                count,
                ATTRIBUTES.as_ptr(),
                places.as_mut_ptr(),
                address as u64,
            )
        };
        if UNKNOWN.contains(&code) {
            return Ok(None);
        }
        if code != 0 {
            return unless_unreadable("cuPointerGetAttributes", code, address);
        }
        let [context, kind, managed, device] = values;
        let place = Place { api: self, context: context as usize, device: device as usize };
        Ok((kind == u64::from(DEVICE) && managed == 0).then_some(place))
    }

    unsafe fn copy(&self, place: Place, direction: Direction, piece: Piece) -> Result<()> {
        let Piece { device, host, len } = piece;
        self.within(place, device, || {
            // SAFETY: the caller's promise.
            let (call, code) = unsafe {
                match direction {
                    Direction::Write => {
                        ("cuMemcpyDtoH", (self.0.cuMemcpyDtoH_v2)(host.cast(), device as u64, len))
                    }
                    Direction::Read => (
                        "cuMemcpyHtoD",
                        (self.0.cuMemcpyHtoD_v2)(device as u64, host.cast_const().cast(), len),
                    ),
                }
            };
            check(call, code, device)
        })
    }

    unsafe fn copy_rows(&self, place: Place, direction: Direction, rows: Rows) -> bool {
        let Piece { device, host, len } = rows.first;
        let memory = Side {
            kind: DEVICE,
            device: device as u64,
            pitch: rows.device_pitch,
            ..Side::default()
        };
        let other =
            Side { kind: HOST, host: host as usize, pitch: rows.host_pitch, ..Side::default() };
        let (from, to) = match direction {
            Direction::Write => (memory, other),
            Direction::Read => (other, memory),
        };
        let copy = Copy2D { from, to, width: len, height: rows.count };
        let done = self.within(place, device, || {
            // SAFETY: the caller's promise.
            let code = unsafe { (self.0.cuMemcpy2DUnaligned_v2)(&raw const copy) };
            check("cuMemcpy2DUnaligned", code, device)
        });
        done.is_ok()
    }

    unsafe fn pin(&self, place: Place, start: *mut u8, len: usize) {
        let _ = self.within(place, 0, || {
            // SAFETY: the caller's promise.
            let code = unsafe { (self.0.cuMemHostRegister_v2)(start.cast(), len, PORTABLE) };
            check("cuMemHostRegister", code, 0)
        });
    }
}

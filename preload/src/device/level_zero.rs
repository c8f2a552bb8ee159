//! The driver of Level Zero.
//!
//! It answers questions about addresses within a context only. One of this library's own serves:
//! drivers know the memory of all contexts, as other libraries rely on too. Programs order copies
//! after their kernels by themselves, since Level Zero has no stream that others wait for.

use super::api::{GpuApi, Piece, Place, check, functions, unless_unreadable};
use super::library::Library;
use agg_core::Result;
use agg_core::file::Direction;
use libc::{c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

functions! {
    zeDriverGet(*mut c_uint, *mut usize) -> c_int;
    zeContextCreate(usize, *const ContextDescription, *mut usize) -> c_int;
    zeMemGetAllocProperties(usize, *const c_void, *mut Allocation, *mut usize) -> c_int;
    zeCommandListCreateImmediate(usize, usize, *const QueueDescription, *mut usize) -> c_int;
    zeCommandListAppendMemoryCopy(usize, *mut c_void, *const c_void, usize, usize, c_uint,
        *mut usize) -> c_int;
}

#[repr(C)]
struct ContextDescription {
    structure: c_uint,
    next: usize,
    flags: c_uint,
}

#[repr(C)]
struct QueueDescription {
    structure: c_uint,
    next: usize,
    ordinal: c_uint,
    index: c_uint,
    flags: c_uint,
    mode: c_uint,
    priority: c_uint,
}

#[repr(C)]
struct Allocation {
    structure: c_uint,
    next: usize,
    kind: c_uint,
    id: u64,
    page_size: u64,
}

/// Numbers of the structures above.
const CONTEXT: c_uint = 0xd;
const QUEUE: c_uint = 0xe;
const ALLOCATION: c_uint = 0x17;

/// The kind of memory that only a device can access.
const DEVICE: c_uint = 2;

/// Commands end before the call that gives them.
const SYNCHRONOUS: c_uint = 1;

/// Drivers of one system at most.
const DRIVERS: usize = 8;

/// The driver's library.
pub(super) struct LevelZero {
    functions: Functions,
    /// A context for each driver, made when the program has started Level Zero.
    contexts: OnceLock<Vec<usize>>,
    /// Devices and the lists that take their commands.
    lists: Mutex<Vec<(usize, usize)>>,
}

impl LevelZero {
    /// The driver in a library; `None` if functions are missing.
    pub(super) fn of(library: Library) -> Option<Box<dyn GpuApi>> {
        let functions = Functions::of(library)?;
        let (contexts, lists) = (OnceLock::new(), Mutex::new(Vec::new()));
        Some(Box::new(Self { functions, contexts, lists }))
    }

    /// The contexts; none before the program has called `zeInit`.
    fn contexts(&self) -> &[usize] {
        if let Some(contexts) = self.contexts.get() {
            return contexts;
        }
        let (mut count, mut drivers) = (DRIVERS as c_uint, [0usize; DRIVERS]);
        // SAFETY: there is room for this number of drivers.
        let code = unsafe { (self.functions.zeDriverGet)(&raw mut count, drivers.as_mut_ptr()) };
        if code != 0 {
            return &[];
        }
        let wish = ContextDescription { structure: CONTEXT, next: 0, flags: 0 };
        let context = |driver: &usize| {
            let mut context = 0usize;
            // SAFETY: a driver that was just given; the variables outlive the call.
            let code = unsafe {
                (self.functions.zeContextCreate)(*driver, &raw const wish, &raw mut context)
            };
            (code == 0).then_some(context)
        };
        let drivers = drivers.iter().take(count as usize);
        self.contexts.get_or_init(|| drivers.filter_map(context).collect())
    }
}

impl GpuApi for LevelZero {
    fn place(&'static self, address: usize) -> Result<Option<Place>> {
        for &context in self.contexts() {
            let mut found =
                Allocation { structure: ALLOCATION, next: 0, kind: 0, id: 0, page_size: 0 };
            let mut device = 0usize;
            // SAFETY: the variables outlive the call; the driver does not follow the address.
            let code = unsafe {
                (self.functions.zeMemGetAllocProperties)(
                    context,
                    address as *const c_void,
                    &raw mut found,
                    &raw mut device,
                )
            };
            if code != 0 {
                return unless_unreadable("zeMemGetAllocProperties", code, address);
            }
            if found.kind == DEVICE {
                return Ok(Some(Place { api: self, context, device }));
            }
        }
        Ok(None)
    }

    unsafe fn copy(&self, place: Place, direction: Direction, piece: Piece) -> Result<()> {
        let Piece { device, host, len } = piece;
        let (memory, host): (*mut c_void, *mut c_void) = (device as *mut c_void, host.cast());
        let (to, from) = match direction {
            Direction::Write => (host, memory),
            Direction::Read => (memory, host),
        };
        // One thread at a time gives commands to a list.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lists.iter().find(|(owner, _)| *owner == place.device).map(|(_, list)| *list);
        let list = match known {
            Some(list) => list,
            None => {
                let wish = QueueDescription {
                    structure: QUEUE,
                    next: 0,
                    ordinal: 0,
                    index: 0,
                    flags: 0,
                    mode: SYNCHRONOUS,
                    priority: 0,
                };
                let mut list = 0usize;
                // SAFETY: context and device belong together; the variables outlive the call.
                let code = unsafe {
                    (self.functions.zeCommandListCreateImmediate)(
                        place.context,
                        place.device,
                        &raw const wish,
                        &raw mut list,
                    )
                };
                check("zeCommandListCreateImmediate", code, device)?;
                lists.push((place.device, list));
                list
            }
        };
        // SAFETY: the caller's promise; no event is waited for.
        let code = unsafe {
            (self.functions.zeCommandListAppendMemoryCopy)(
                list,
                to,
                from,
                len,
                0,
                0,
                std::ptr::null_mut(),
            )
        };
        check("zeCommandListAppendMemoryCopy", code, device)
    }

    unsafe fn pin(&self, _place: Place, _start: *mut u8, _len: usize) {
        // Level Zero pins memory that it allocates only.
    }
}

//! The drivers' libraries, as far as the program has loaded them. Nothing is loaded here.

use super::api::GpuApi;
use super::cuda::Cuda;
use super::hip::Hip;
use super::level_zero::LevelZero;
use super::library::Library;
use crate::resolve::{loaded_objects, open_loaded};
use libc::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a library's file name begins, and its driver.
type Kind = (&'static [u8], fn(Library) -> Option<Box<dyn GpuApi>>);

const KINDS: [Kind; 3] =
    [(b"libcuda.so", Cuda::of), (b"libamdhip64.so", Hip::of), (b"libze_loader.so", LevelZero::of)];

/// The drivers that were found, in the order of [`KINDS`].
static APIS: [OnceLock<Box<dyn GpuApi>>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];

/// Whether there is any.
static ANY: AtomicBool = AtomicBool::new(false);

/// How many objects had been loaded in the process when drivers were last looked for.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Whether a driver is loaded. Libraries are searched only after the process has loaded more.
#[inline]
pub(super) fn any() -> bool {
    let loaded = loaded_so_far();
    if loaded != SEEN.load(Ordering::Acquire) {
        look();
        SEEN.store(loaded, Ordering::Release);
    }
    ANY.load(Ordering::Acquire)
}

/// The loaded drivers.
pub(super) fn apis() -> impl Iterator<Item = &'static dyn GpuApi> {
    APIS.iter().filter_map(OnceLock::get).map(|api| &**api)
}

/// How many objects the process has loaded since it started; those it unloaded count too.
fn loaded_so_far() -> u64 {
    unsafe extern "C" fn first(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        count: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid record, and our caller a pointer to its variable.
        unsafe { *count.cast::<u64>() = (*object).dlpi_adds };
        1
    }
    let mut count = 0u64;
    // SAFETY: the callback gets back the pointer to `count`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

#[cold]
fn look() {
    for path in loaded_objects() {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
        let Some(kind) = KINDS.iter().position(|(start, _)| name.starts_with(start)) else {
            continue;
        };
        if APIS[kind].get().is_some() {
            continue;
        }
        // SAFETY: the path ends with a zero byte.
        let library = unsafe { open_loaded(path.as_ptr().cast()) }.map(Library::new);
        if let Some(driver) = library.and_then(KINDS[kind].1) {
            let _ = APIS[kind].set(driver);
            ANY.store(true, Ordering::Release);
        }
    }
}

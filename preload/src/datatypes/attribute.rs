//! Decoded types, kept with the MPI type itself: an attribute that the library deletes with it.

use crate::keyval::{Key, Object};
use agg_core::datatype::Datatype;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static KEY: Key<Cached> = Key::new(Object::Type);

/// The value of the attribute.
struct Cached {
    native: Datatype,
    /// Decoded when it is first asked for.
    external: OnceLock<Datatype>,
    /// The type was seen committed; commitment never ends.
    committed: AtomicBool,
}

/// The layout in memory, if the type was decoded before.
pub(super) fn native(handle: usize) -> Option<Datatype> {
    KEY.with(handle, |cached| cached.native.clone())
}

/// As [`native`], if the type is also known to be committed.
pub(super) fn committed(handle: usize) -> Option<Datatype> {
    let look =
        |cached: &Cached| cached.committed.load(Ordering::Relaxed).then(|| cached.native.clone());
    KEY.with(handle, look).flatten()
}

/// The layout in an `external32` file, if it was decoded before.
pub(super) fn external(handle: usize) -> Option<Datatype> {
    KEY.with(handle, |cached| cached.external.get().cloned()).flatten()
}

/// Keeps the layout in an `external32` file, if that in memory is kept already.
pub(super) fn set_external(handle: usize, external: Datatype) {
    // Another thread may have decoded the same.
    let _ = KEY.with(handle, |cached| cached.external.set(external));
}

/// Whether `handle` is known to be committed.
pub(super) fn is_committed(handle: usize) -> bool {
    KEY.with(handle, |cached| cached.committed.load(Ordering::Relaxed)).unwrap_or(false)
}

/// Remembers that `handle` is committed.
pub(super) fn set_committed(handle: usize) {
    let _ = KEY.with(handle, |cached| cached.committed.store(true, Ordering::Relaxed));
}

/// Keeps the layout in memory with the type. Without success the type is decoded again next time.
pub(super) fn set_native(handle: usize, native: Datatype) {
    let external = OnceLock::new();
    let _ = KEY.set(handle, Cached { native, external, committed: AtomicBool::new(false) });
}

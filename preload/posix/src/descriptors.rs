//! The table of descriptors that this library serves, and the object that each is open on.
//!
//! One load finds the object, also in a signal handler and in a child after `fork` or `vfork`.
//! Objects are never freed, only reused: a thread that has just found one may go on using it.

use libc::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};

/// Descriptors from this number on are never ours.
pub const LIMIT: usize = 65_536;

/// The bits of an entry that have the kind of its object.
const KINDS: usize = 7;

/// The kinds of objects that descriptors can be open on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file that a rule names.
    Plain = 1,
    /// A container or a set.
    Container = 2,
    /// A file that programs exchange in memory.
    Coupled = 3,
    /// An object of a test.
    #[cfg(test)]
    Test = 4,
}

/// An object that descriptors can be open on: an open file description, which `dup` shares.
///
/// # Safety
/// No other type has this kind. Objects are never freed.
pub unsafe trait Object: Sync + 'static {
    /// The kind of all objects of this type.
    const KIND: Kind;

    /// How many descriptors of the process are open on it.
    fn references(&self) -> &AtomicUsize;
}

/// The objects of all descriptors. All its bytes are zero, so that it takes no room in a file, nor
/// in memory before it is used.
struct Descriptors {
    /// Addresses of objects, with their kinds in the lowest bits.
    entries: [AtomicPtr<()>; LIMIT],
    /// How many descriptors are open on objects of each kind.
    counts: [AtomicUsize; KINDS + 1],
    /// One more than the highest descriptor that was ever in the table.
    end: AtomicUsize,
}

impl Descriptors {
    /// None is ours.
    const fn new() -> Self {
        Self {
            entries: [const { AtomicPtr::new(std::ptr::null_mut()) }; LIMIT],
            counts: [const { AtomicUsize::new(0) }; KINDS + 1],
            end: AtomicUsize::new(0),
        }
    }
}

static TABLE: Descriptors = Descriptors::new();

/// What a descriptor is open on, of any kind.
#[derive(Clone, Copy)]
pub struct Entry(NonNull<()>);

impl Entry {
    /// The object, if it is one of this type.
    #[inline(always)]
    pub fn object<T: Object>(self) -> Option<&'static T> {
        let is_one = self.0.addr().get() & KINDS == T::KIND as usize;
        let address = self.0.as_ptr().map_addr(|address| address & !KINDS).cast::<T>();
        // SAFETY: only objects of this type have this kind, and they are never freed.
        is_one.then(|| unsafe { &*address })
    }
}

/// The entry of an object.
fn word<T: Object>(object: &'static T) -> *mut () {
    const { assert!(align_of::<T>() > KINDS, "the bits of the kind are free") };
    std::ptr::from_ref(object)
        .cast_mut()
        .cast::<()>()
        .map_addr(|address| address | T::KIND as usize)
}

/// What `fd` is open on, if it is one of ours.
#[inline(always)]
pub fn entry(fd: c_int) -> Option<Entry> {
    NonNull::new(TABLE.entries.get(fd as usize)?.load(Acquire)).map(Entry)
}

/// The object of this type that `fd` is open on.
#[inline(always)]
pub fn get<T: Object>(fd: c_int) -> Option<&'static T> {
    entry(fd)?.object()
}

/// Whether `fd` is open on an object of this type.
#[inline(always)]
pub fn has<T: Object>(fd: c_int) -> bool {
    get::<T>(fd).is_some()
}

/// Whether any descriptor is open on an object of this type.
#[inline(always)]
pub fn any<T: Object>() -> bool {
    TABLE.counts[T::KIND as usize].load(Relaxed) != 0
}

/// Says that `fd` is open on `object`, whatever it was open on before. Nothing is changed and the
/// result is false if the number is too high.
pub fn put<T: Object>(fd: c_int, object: &'static T) -> bool {
    let Some(entry) = TABLE.entries.get(fd as usize) else { return false };
    object.references().fetch_add(1, AcqRel);
    TABLE.end.fetch_max(fd as usize + 1, Relaxed);
    TABLE.counts[T::KIND as usize].fetch_add(1, Relaxed);
    let old = entry.swap(word(object), AcqRel).addr() & KINDS;
    if old != 0 {
        TABLE.counts[old].fetch_sub(1, Relaxed);
    }
    true
}

/// Takes `fd` out of the table; `None` if it is not open on `object`, otherwise whether `object`
/// has no other descriptor.
pub fn take<T: Object>(fd: c_int, object: &'static T) -> Option<bool> {
    let entry = TABLE.entries.get(fd as usize)?;
    entry.compare_exchange(word(object), std::ptr::null_mut(), AcqRel, Relaxed).ok()?;
    TABLE.counts[T::KIND as usize].fetch_sub(1, Relaxed);
    Some(object.references().fetch_sub(1, AcqRel) == 1)
}

/// All descriptors of ours.
pub fn all() -> impl Iterator<Item = c_int> {
    (0..TABLE.end.load(Relaxed) as c_int).filter(|fd| entry(*fd).is_some())
}

/// All descriptors that are open on objects of this type.
pub fn each<T: Object>() -> impl Iterator<Item = (c_int, &'static T)> {
    let end = if any::<T>() { TABLE.end.load(Relaxed) } else { 0 };
    (0..end as c_int).filter_map(|fd| Some((fd, get(fd)?)))
}

/// The descriptors that are open on this object.
pub fn of<T: Object>(object: &'static T) -> impl Iterator<Item = c_int> {
    each::<T>().filter(move |(_, other)| std::ptr::eq(*other, object)).map(|(fd, _)| fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing {
        references: AtomicUsize,
    }

    // SAFETY: the kind is this test's; the objects are statics.
    unsafe impl Object for Thing {
        const KIND: Kind = Kind::Test;

        fn references(&self) -> &AtomicUsize {
            &self.references
        }
    }

    #[test]
    fn descriptors_share_an_object_until_the_last_is_taken_out() {
        static ONE: Thing = Thing { references: AtomicUsize::new(0) };
        static OTHER: Thing = Thing { references: AtomicUsize::new(0) };
        let (first, second) = (61_001, 61_002);
        assert!(put(first, &ONE) && put(second, &ONE) && any::<Thing>());
        assert!(get(first).is_some_and(|thing: &Thing| std::ptr::eq(thing, &ONE)));
        assert!(of(&ONE).eq([first, second]) && of(&OTHER).next().is_none());
        assert_eq!(
            (take(first, &OTHER), take(first, &ONE), take(first, &ONE)),
            (None, Some(false), None)
        );
        assert!(!has::<Thing>(first) && has::<Thing>(second));
        assert_eq!(take(second, &ONE), Some(true));
        assert!(entry(second).is_none() && of(&ONE).next().is_none());
    }

    #[test]
    fn numbers_that_are_no_descriptors_are_never_ours() {
        static ONE: Thing = Thing { references: AtomicUsize::new(0) };
        for fd in [-1, LIMIT as c_int, c_int::MAX] {
            assert!(!put(fd, &ONE) && entry(fd).is_none() && take(fd, &ONE).is_none());
        }
        assert_eq!(ONE.references.load(Relaxed), 0);
    }
}

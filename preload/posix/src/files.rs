//! The files that descriptors of rules are open on, and their descriptions.
//!
//! Both kinds of objects are never freed, only reused: a thread that reads a pointer and then waits
//! for a lock finds an object of the same kind, and checks whether it is still the intended one.

use super::ahead::Ahead;
use super::counts::Counts;
use super::descriptors::{Kind, Object};
use super::lock::{Guard, Lock};
use super::signal_writes::Late;
use super::state;
use agg_core::rules::Mode;
use agg_core::spool::{Ask, Slot};
use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

/// An open file description of this process; `dup` shares it.
pub struct Description {
    file: AtomicPtr<File>,
    /// One of its descriptors.
    pub descriptor: AtomicI32,
    /// How many descriptors it has.
    references: AtomicUsize,
    /// Whether it may be written to.
    pub writable: AtomicBool,
    /// Whether it may be read.
    pub readable: AtomicBool,
    /// The position is ours, the kernel's is old.
    pub tracked: AtomicBool,
    position: UnsafeCell<u64>,
}

/// A file that is open in this process, by any number of descriptions.
pub struct File {
    lock: Lock,
    /// Everything about it goes to the kernel.
    pub native: AtomicBool,
    /// Some of its bytes are not in the kernel.
    pub dirty: AtomicBool,
    /// Device and inode.
    pub identity: [AtomicU64; 2],
    held: UnsafeCell<Held>,
    /// Writes of signal handlers that found the lock held by their own thread.
    pub late: Late,
}

/// The state that the lock of the file protects.
pub struct Held {
    /// The name, as the kernel knew it at open.
    pub path: Vec<u8>,
    /// The mode that the rule of the file sets.
    pub mode: Mode,
    /// Descriptions open on it.
    pub descriptions: usize,
    /// The bytes that are not in the kernel.
    pub buffer: Buffer,
    /// The error that the next write, sync or close returns.
    pub error: c_int,
    /// Small writes since the last large one.
    pub streak: usize,
    /// Whether pieces apart from each other are worth keeping.
    pub scattered: bool,
    /// A position that the kernel has accepted.
    pub accepted: u64,
    /// Bytes that were read ahead.
    pub ahead: Ahead,
    /// Events since the last report.
    pub counts: Counts,
    /// The user has had a report, or another process reports the file.
    pub told: bool,
}

/// The dirty bytes of a file.
pub struct Buffer {
    /// Room for them.
    pub slot: Option<Slot>,
    /// Where to ask for the version of the file after a write; `None` until it is determined.
    pub ask: Option<Ask>,
    /// Number of dirty pieces.
    pub count: usize,
    /// Bytes in the slot.
    pub used: usize,
    /// Where the last piece ends in the file.
    pub end: u64,
    /// The description that writes the dirty bytes, by its descriptor.
    pub writer: Option<&'static Description>,
}

impl Held {
    /// Whether there is anything to report.
    pub fn is_news(&self) -> bool {
        !self.told || self.counts != Counts::new()
    }
}

// SAFETY: all fields but the atomics are used only with the lock of the file.
unsafe impl Sync for Description {}
// SAFETY: no other type has the kind, and descriptions are never freed.
unsafe impl Object for Description {
    const KIND: Kind = Kind::Plain;

    #[inline]
    fn references(&self) -> &AtomicUsize {
        &self.references
    }
}
// SAFETY: as above.
unsafe impl Sync for File {}

impl Description {
    fn new() -> Self {
        Self {
            file: AtomicPtr::new(std::ptr::null_mut()),
            descriptor: AtomicI32::new(-1),
            references: AtomicUsize::new(0),
            writable: AtomicBool::new(false),
            readable: AtomicBool::new(false),
            tracked: AtomicBool::new(false),
            position: UnsafeCell::new(0),
        }
    }

    /// Its file.
    #[inline]
    pub fn file(&self) -> Option<&'static File> {
        // SAFETY: files are never freed.
        unsafe { self.file.load(Relaxed).as_ref() }
    }

    /// Connects it with a file, or with none.
    pub fn set_file(&self, file: Option<&'static File>) {
        let file = file.map_or(std::ptr::null_mut(), |file| std::ptr::from_ref(file).cast_mut());
        self.file.store(file, Relaxed);
    }

    /// The position, while [tracked](Description::tracked); the file is locked.
    #[inline]
    pub fn position(&self) -> u64 {
        // SAFETY: the caller holds the lock of the file.
        unsafe { *self.position.get() }
    }

    /// Changes the position; the file is locked.
    #[inline]
    pub fn set_position(&self, position: u64) {
        // SAFETY: as above.
        unsafe { *self.position.get() = position }
    }
}

impl File {
    fn new() -> Self {
        Self {
            lock: Lock::new(),
            native: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            identity: [AtomicU64::new(0), AtomicU64::new(0)],
            held: UnsafeCell::new(Held::new()),
            late: Late::new(),
        }
    }

    /// Locks the file; `None` in a signal handler that interrupted its owner.
    #[inline]
    pub fn lock(&'static self) -> Option<Guard<'static>> {
        self.lock.lock()
    }

    /// The state that the lock protects.
    ///
    /// # Safety
    /// The caller holds the lock, or is the only thread that is left.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the lock sees to it that there is one")]
    pub unsafe fn held(&self) -> &mut Held {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.held.get() }
    }

    /// Whether it is the file of this device and inode.
    pub fn is(&self, identity: [u64; 2]) -> bool {
        self.identity[0].load(Relaxed) == identity[0]
            && self.identity[1].load(Relaxed) == identity[1]
    }
}

impl Held {
    const fn new() -> Self {
        Self {
            path: Vec::new(),
            mode: Mode::Posix,
            descriptions: 0,
            buffer: Buffer { slot: None, ask: None, count: 0, used: 0, end: 0, writer: None },
            error: 0,
            streak: 0,
            scattered: true,
            accepted: 0,
            ahead: Ahead::new(),
            counts: Counts::new(),
            told: false,
        }
    }

    /// Takes the error that is owed.
    pub fn take_error(&mut self) -> c_int {
        std::mem::take(&mut self.error)
    }
}

/// All files, and objects to be used again.
pub struct Registry {
    /// Files that are open.
    pub files: Vec<&'static File>,
    spare_files: Vec<&'static File>,
    spare_descriptions: Vec<&'static Description>,
}

/// All files of the process.
struct Files {
    lock: Lock,
    registry: UnsafeCell<Registry>,
}
// SAFETY: the registry is only touched with the lock.
unsafe impl Sync for Files {}

impl Files {
    /// None.
    const fn new() -> Self {
        let registry =
            Registry { files: Vec::new(), spare_files: Vec::new(), spare_descriptions: Vec::new() };
        Self { lock: Lock::new(), registry: UnsafeCell::new(registry) }
    }
}

static FILES: Files = Files::new();

/// Locks the list of files, before the lock of any file, and calls `with`; `None` in a signal
/// handler that interrupted its owner.
pub fn registry<T>(with: impl FnOnce(&mut Registry) -> T) -> Option<T> {
    let _guard = FILES.lock.lock()?;
    // SAFETY: the lock is held.
    Some(with(unsafe { &mut *FILES.registry.get() }))
}

/// As [`registry`], also if this thread was interrupted while it held the list: at the end of the
/// process.
pub fn registry_anyway(with: impl FnOnce(&Registry)) {
    let _guard = FILES.lock.lock();
    // SAFETY: the lock is held, or this thread holds it and does not go on.
    with(unsafe { &*FILES.registry.get() });
}

/// Holds the list beyond the end of a function; [`release_registry`] gives it back.
pub fn hold_registry() -> Option<&'static mut Registry> {
    std::mem::forget(FILES.lock.lock()?);
    // SAFETY: the lock is held, until `release_registry`.
    Some(unsafe { &mut *FILES.registry.get() })
}

/// The list, which this thread [holds](hold_registry).
pub fn with_held_registry(with: impl FnOnce(&Registry)) {
    // SAFETY: the lock is held since `hold_registry`.
    with(unsafe { &*FILES.registry.get() });
}

/// Releases the lock that [`hold_registry`] took.
pub fn release_registry() {
    FILES.lock.release();
}

/// Releases the lock of a file after its guard was forgotten.
pub fn release(file: &File) {
    file.lock.release();
}

impl Registry {
    /// The open file of this device and inode.
    pub fn find(&self, identity: [u64; 2]) -> Option<&'static File> {
        self.files.iter().find(|file| file.is(identity)).copied()
    }

    /// A new file.
    pub fn add(&mut self, identity: [u64; 2], path: Vec<u8>, mode: Mode) -> &'static File {
        let fresh = || -> &'static File { Box::leak(Box::new(File::new())) };
        let file = self.spare_files.pop().unwrap_or_else(fresh);
        if let Some(_guard) = file.lock() {
            file.native.store(false, Relaxed);
            for (place, value) in file.identity.iter().zip(identity) {
                place.store(value, Relaxed);
            }
            // SAFETY: the lock is held.
            let held = unsafe { file.held() };
            *held = Held { path, mode, ahead: held.ahead.reused(), ..Held::new() };
        }
        self.files.push(file);
        file
    }

    /// A new description of `file` for the descriptor `fd`, open as `access` says (`O_RDONLY`,
    /// ...).
    pub fn describe(
        &mut self,
        file: &'static File,
        fd: c_int,
        access: c_int,
    ) -> &'static Description {
        let fresh = || -> &'static Description { Box::leak(Box::new(Description::new())) };
        let description = self.spare_descriptions.pop().unwrap_or_else(fresh);
        description.descriptor.store(fd, Relaxed);
        description.writable.store(access != libc::O_RDONLY, Relaxed);
        description.readable.store(access != libc::O_WRONLY, Relaxed);
        description.tracked.store(false, Relaxed);
        description.set_file(Some(file));
        description
    }

    /// A description has no descriptor any more; nothing of it is dirty. Whether the file is closed
    /// with it.
    pub fn forget(&mut self, description: &'static Description, file: &'static File) -> bool {
        description.set_file(None);
        self.spare_descriptions.push(description);
        // SAFETY: the caller holds the lock of the file.
        let held = unsafe { file.held() };
        held.descriptions -= 1;
        if held.descriptions > 0 {
            return false;
        }
        self.files.retain(|other| !std::ptr::eq(*other, file));
        self.spare_files.push(file);
        true
    }
}

/// Counts a file when its first byte becomes dirty, or when its last one has reached the kernel.
pub fn mark(file: &File, held: &Held, dirty: bool) {
    if file.dirty.swap(dirty, Relaxed) == dirty {
        return;
    }
    let count = |counter: &AtomicUsize| {
        if dirty {
            counter.fetch_add(1, Relaxed)
        } else {
            counter.fetch_sub(1, Relaxed)
        };
    };
    count(&state::flags().dirty);
    if held.mode == Mode::Causal {
        count(&state::flags().causal);
    }
}

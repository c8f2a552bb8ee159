//! Calls on an open file: their arguments, how the kernel performs them, and what each kind of open
//! file does with them.

use super::next::{self, Functions};
use super::reason::Reason;
use super::{errno, readable_memory};
use libc::{FILE, c_char, c_int, c_uint, c_ulong, c_void, iovec, mode_t, off64_t, size_t, ssize_t};

/// The most vectors that the kernel takes.
const VECTORS: c_int = 1024;

/// The arguments of a read or a write: memory that the caller gives up meanwhile, and a place in
/// the file.
pub struct Transfer {
    one: iovec,
    /// The vectors of the program; null if there is only `one`.
    list: *const iovec,
    count: c_int,
    /// Where in the file; `None` means at the position.
    pub offset: Option<off64_t>,
    /// The flags of `preadv2` and `pwritev2`.
    pub flags: c_int,
}

impl Transfer {
    /// `len` bytes of memory, at the position.
    ///
    /// # Safety
    /// The arguments of a call that reads or writes and lasts at least as long as the value.
    #[inline]
    pub const unsafe fn one(data: *const c_void, len: size_t) -> Self {
        let one = iovec { iov_base: data.cast_mut(), iov_len: len };
        Self { one, list: std::ptr::null(), count: 1, offset: None, flags: 0 }
    }

    /// The memory of a list of vectors, at the position.
    ///
    /// # Safety
    /// As for [`one`](Transfer::one).
    pub const unsafe fn list(list: *const iovec, count: c_int) -> Self {
        let one = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // A list at no address has no vector that can be read.
        let list = if list.is_null() { std::ptr::dangling() } else { list };
        Self { one, list, count, offset: None, flags: 0 }
    }

    /// The same at a place in the file.
    #[inline]
    pub const fn at(self, offset: off64_t) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// The same with flags, where the offset -1 means the position.
    pub const fn with_flags(self, offset: off64_t, flags: c_int) -> Self {
        Self { offset: if offset == -1 { None } else { Some(offset) }, flags, ..self }
    }

    /// The memory, if it is that of a call without vectors.
    #[inline]
    pub fn single(&self) -> Option<(*mut u8, usize)> {
        self.list.is_null().then(|| (self.one.iov_base.cast(), self.one.iov_len))
    }

    /// The vectors.
    ///
    /// # Errors
    /// As the kernel's, if they cannot be read or are too many.
    #[inline]
    pub fn vectors(&self) -> Result<&[iovec], c_int> {
        if self.list.is_null() {
            return Ok(std::slice::from_ref(&self.one));
        }
        match self.count {
            0 => Ok(&[]),
            1..=VECTORS => {
                let count = self.count as usize;
                if readable_memory::readable(self.list.cast(), count * size_of::<iovec>()) {
                    // SAFETY: they can be read, and nobody changes them meanwhile.
                    Ok(unsafe { std::slice::from_raw_parts(self.list, count) })
                } else {
                    Err(libc::EFAULT)
                }
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// Lets the kernel read; at `position`, if the call is one at a position that is not the
    /// kernel's.
    #[inline]
    pub fn read(&self, fd: c_int, position: Option<u64>) -> ssize_t {
        let offset = position.map(|position| position as off64_t).or(self.offset);
        let (data, len) = (self.one.iov_base, self.one.iov_len);
        // SAFETY: the arguments of such a call.
        unsafe {
            match (self.list.is_null(), offset, self.flags) {
                (true, None, _) => next::read(fd, data, len),
                (true, Some(offset), _) => next::pread64(fd, data, len, offset),
                (false, None, 0) => next::readv(fd, self.list, self.count),
                (false, Some(offset), 0) => next::preadv64(fd, self.list, self.count, offset),
                (false, offset, flags) => {
                    next::preadv64v2(fd, self.list, self.count, offset.unwrap_or(-1), flags)
                }
            }
        }
    }

    /// Lets the kernel write, in the same way.
    #[inline]
    pub fn write(&self, fd: c_int, position: Option<u64>) -> ssize_t {
        let offset = position.map(|position| position as off64_t).or(self.offset);
        let (data, len) = (self.one.iov_base, self.one.iov_len);
        // SAFETY: the arguments of such a call.
        unsafe {
            match (self.list.is_null(), offset, self.flags) {
                (true, None, _) => next::write(fd, data, len),
                (true, Some(offset), _) => next::pwrite64(fd, data, len, offset),
                (false, None, 0) => next::writev(fd, self.list, self.count),
                (false, Some(offset), 0) => next::pwritev64(fd, self.list, self.count, offset),
                (false, offset, flags) => {
                    next::pwritev64v2(fd, self.list, self.count, offset.unwrap_or(-1), flags)
                }
            }
        }
    }
}

/// A call on a descriptor that moves no bytes of the program, with its arguments.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the arguments are those of the C library's functions")]
pub enum Call {
    /// `fstat`.
    Facts(*mut c_void),
    /// `ftruncate`.
    SetSize(off64_t),
    /// `fallocate`.
    Allocate { mode: c_int, offset: off64_t, len: off64_t },
    /// `posix_fallocate`.
    Reserve { offset: off64_t, len: off64_t },
    /// `posix_fadvise`.
    Advise { offset: off64_t, len: off64_t, advice: c_int },
    /// `readahead`.
    ReadAhead { offset: off64_t, count: size_t },
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    SyncData,
    /// `sync_file_range`.
    SyncRange { offset: off64_t, len: off64_t, flags: c_uint },
    /// `syncfs`, after everything that is kept back was written.
    SyncAll,
    /// `flock`.
    Lock(c_int),
    /// `lockf`.
    LockRange { command: c_int, len: off64_t },
    /// `ioctl`.
    Device { request: c_ulong, argument: usize },
    /// `fchmod`.
    Mode(mode_t),
    /// `fchown`.
    Owner { user: c_uint, group: c_uint },
    /// `futimens`.
    Times(*const c_void),
    /// `futimes`.
    CoarseTimes(*const c_void),
    /// `fsetxattr`.
    Attribute { name: *const c_char, value: *mut c_void, len: size_t, flags: c_int },
}

impl Call {
    /// Lets the kernel perform it.
    ///
    /// # Safety
    /// The program's arguments of the call.
    pub unsafe fn kernel(&self, fd: c_int) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            match *self {
                Call::Facts(to) => next::fstat64(fd, to),
                Call::SetSize(len) => next::ftruncate64(fd, len),
                Call::Allocate { mode, offset, len } => next::fallocate64(fd, mode, offset, len),
                Call::Reserve { offset, len } => next::posix_fallocate64(fd, offset, len),
                Call::Advise { offset, len, advice } => {
                    next::posix_fadvise64(fd, offset, len, advice)
                }
                Call::ReadAhead { offset, count } => next::readahead(fd, offset, count) as c_int,
                Call::Sync => next::fsync(fd),
                Call::SyncData => next::fdatasync(fd),
                Call::SyncRange { offset, len, flags } => {
                    next::sync_file_range(fd, offset, len, flags)
                }
                Call::SyncAll => next::syncfs(fd),
                Call::Lock(operation) => next::flock(fd, operation),
                Call::LockRange { command, len } => next::lockf64(fd, command, len),
                Call::Device { request, argument } => next::ioctl(fd, request, argument),
                Call::Mode(mode) => next::fchmod(fd, mode),
                Call::Owner { user, group } => next::fchown(fd, user, group),
                Call::Times(times) => next::futimens(fd, times.cast_mut()),
                Call::CoarseTimes(times) => next::futimes(fd, times.cast_mut()),
                Call::Attribute { name, value, len, flags } => {
                    next::fsetxattr(fd, name, value, len, flags)
                }
            }
        }
    }

    /// The result of the call, as the C library's function returns it.
    pub fn told(&self, result: Result<c_int, c_int>) -> c_int {
        let is_number = matches!(self, Call::Reserve { .. } | Call::Advise { .. });
        match result {
            Ok(done) => done,
            Err(error) if is_number => error,
            Err(error) => errno::fail(error) as c_int,
        }
    }

    /// Whether it is a request that changes and shows nothing of the file: about a terminal, or
    /// close-on-exec.
    pub fn is_harmless(&self) -> bool {
        const OTHERS: [c_ulong; 4] =
            [libc::TCGETS as _, libc::TIOCGWINSZ as _, 0x5451 /* FIOCLEX */, 0x5450];
        matches!(self, Call::Device { request, .. } if OTHERS.contains(request))
    }
}

/// The arguments of `mmap`, but for the descriptor.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "as the C library names them")]
pub struct Mapping {
    pub address: *mut c_void,
    pub len: size_t,
    pub protection: c_int,
    pub flags: c_int,
    pub offset: off64_t,
}

impl Mapping {
    /// Whether the mapping shows later changes of the file.
    pub fn is_shared(&self) -> bool {
        self.flags & libc::MAP_TYPE != libc::MAP_PRIVATE
    }

    /// Lets the kernel map the file of `fd`.
    ///
    /// # Safety
    /// As `mmap` demands.
    pub unsafe fn kernel(&self, fd: c_int) -> *mut c_void {
        let Self { address, len, protection, flags, offset } = *self;
        // SAFETY: the caller's promise.
        unsafe { next::mmap64(address, len, protection, flags, fd, offset) }
    }
}

/// The result of `mmap` that fails.
pub fn not_mapped(error: c_int) -> *mut c_void {
    errno::set(error);
    libc::MAP_FAILED
}

/// What is to be told of a descriptor that leaves the table.
#[must_use = "an error may be owed, and others may wait to hear of the end"]
pub enum Left {
    /// The error that `close` returns to the program, if any.
    Done(Result<(), c_int>),
    /// To be called when the descriptor is closed, with the same result.
    After(Box<dyn FnOnce() -> Result<(), c_int>>),
}

impl Left {
    /// When the descriptor is closed.
    ///
    /// # Errors
    /// The error that `close` returns to the program: bytes that could not be stored.
    pub fn tell(self) -> Result<(), c_int> {
        match self {
            Left::Done(owed) => owed,
            Left::After(tell) => tell(),
        }
    }
}

/// What an open file of one kind does with the calls of the program. `fd` is the descriptor of the
/// call, one of those that share the open file. Functions return and set `errno` as those of the C
/// library do.
pub trait OpenFile: Sync {
    /// Reads.
    fn read(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t;

    /// Reads for a stream, which may read more than the program asks for.
    fn read_for_stream(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        self.read(fd, transfer)
    }

    /// Writes.
    fn write(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t;

    /// `lseek`.
    fn seek(&'static self, fd: c_int, offset: off64_t, whence: c_int) -> off64_t;

    /// Any other call.
    ///
    /// # Safety
    /// As the C library demands.
    unsafe fn call(&'static self, fd: c_int, call: &Call) -> c_int;

    /// `fcntl`, but for the commands that duplicate the descriptor.
    ///
    /// # Safety
    /// As the C library demands.
    unsafe fn control(&'static self, fd: c_int, command: c_int, argument: usize) -> c_int {
        match command {
            libc::F_SETFL => {
                let special = libc::O_APPEND | libc::O_DIRECT | libc::O_ASYNC;
                if argument as c_int & special != 0 {
                    self.demote(fd, Reason::StatusFlags);
                }
            }
            libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_GETOWN => {}
            libc::F_SETLEASE | libc::F_NOTIFY => self.demote(fd, Reason::Lease),
            // Locks are counted from the position, and bytes written under a lock must be visible
            // after it.
            _ => self.settle(fd, None),
        }
        // SAFETY: the caller's promise.
        unsafe { next::fcntl(fd, command, argument) }
    }

    /// `mmap`.
    ///
    /// # Safety
    /// As the C library demands.
    unsafe fn map(&'static self, fd: c_int, mapping: &Mapping) -> *mut c_void;

    /// `fdopen`; `functions` are those of a stream that calls this library.
    ///
    /// # Safety
    /// As the C library demands.
    unsafe fn stream(
        &'static self,
        fd: c_int,
        mode: *const c_char,
        functions: Functions,
    ) -> *mut FILE;

    /// Lets `kernel` duplicate `fd`, and notes that the new descriptor shares the open file.
    fn duplicate(&'static self, fd: c_int, kernel: &mut dyn FnMut() -> c_int) -> c_int;

    /// Takes `fd` out of the table, before it is closed.
    fn leave(&'static self, fd: c_int) -> Left;

    /// Takes `fd` out of the table, which was closed where this library does not see it. It is
    /// another file's already.
    fn vanish(&'static self, fd: c_int) {
        let _ = self.leave(fd).tell();
    }

    /// Puts bytes and position into the kernel, for one call that it performs itself; for a
    /// `reason` if others may read the file by it.
    fn settle(&'static self, _fd: c_int, _reason: Option<Reason>) {}

    /// Leaves the file to the kernel for good.
    fn demote(&'static self, _fd: c_int, _reason: Reason) {}

    /// Before the kernel moves bytes to or, if `from`, out of the file: whether it can.
    ///
    /// # Errors
    /// The error number of the call, if it must fail.
    fn before_move(&'static self, fd: c_int, from: bool) -> Result<bool, c_int>;
}

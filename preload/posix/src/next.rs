//! The functions of the C library that stand behind interposed ones, as far as this crate calls
//! them.

use super::errno;
use super::host::process;
use libc::{
    FILE, c_char, c_int, c_long, c_uint, c_ulong, c_void, iovec, mode_t, off64_t, pid_t, size_t,
    ssize_t, wchar_t,
};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The next function of a name, in libraries behind the one that contains this crate.
pub struct Slot {
    name: &'static str,
    address: AtomicUsize,
}

impl Slot {
    /// Of a name that ends with a zero byte.
    pub const fn new(name: &'static str) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address; 0 if there is none.
    #[inline(always)]
    pub fn get(&self) -> usize {
        match self.address.load(Relaxed) {
            0 => self.look(),
            found => found,
        }
    }

    #[cold]
    fn look(&self) -> usize {
        let found = find(self.name);
        self.address.store(found, Relaxed);
        found
    }
}

/// The address of the next function of `name`, which ends with a zero byte; 0 if there is none.
pub fn find(name: &'static str) -> usize {
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { return 0 };
    // SAFETY: the name is a C string; a library that is loaded is not loaded again.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return next as usize;
        }
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() { 0 } else { libc::dlsym(library, name.as_ptr()) as usize }
    }
}

/// The result of a call without a next function.
pub trait Missing {
    /// That, with `errno` set.
    fn missing() -> Self;
}

macro_rules! missing {
    ($($ty:ty),*) => { $(impl Missing for $ty {
        #[cold]
        fn missing() -> Self {
            errno::fail(libc::ENOSYS) as $ty
        }
    })* };
}
missing!(c_int, c_uint, i64, isize);

impl<T> Missing for *mut T {
    #[cold]
    fn missing() -> Self {
        errno::set(libc::ENOSYS);
        std::ptr::null_mut()
    }
}

impl Missing for () {
    #[cold]
    fn missing() {}
}

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        /// Where they are.
        #[allow(non_snake_case, reason = "the names are the C library's")]
        pub(crate) struct Slots { $($name: Slot),* }

        impl Slots {
            pub(crate) const fn new() -> Self {
                Self { $($name: Slot::new(concat!(stringify!($name), "\0"))),* }
            }

            /// Looks all of them up, which a signal handler must not.
            pub(crate) fn resolve(&self) {
                let _errno = errno::Keep::new();
                $(self.$name.get();)*
            }
        }

        $(
            /// Calls the next function of this name.
            ///
            /// # Safety
            /// The arguments satisfy the requirements of the function.
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the C library's signature")]
            #[allow(non_snake_case, reason = "the names are the C library's")]
            pub unsafe fn $name($($arg: $ty),*) -> $ret {
                match process().next.$name.get() {
                    0 => Missing::missing(),
                    // SAFETY: the next function has the signature that the C library declares.
                    address => unsafe {
                        let next: unsafe extern "C" fn($($ty),*) -> $ret =
                            std::mem::transmute(address);
                        next($($arg),*)
                    },
                }
            }
        )*
    };
}

/// The functions of a cookie stream, as glibc declares them.
#[repr(C)]
pub struct Functions {
    /// Reads into the stream's buffer.
    pub read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    /// Writes the stream's buffer.
    pub write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    /// Moves the position.
    pub seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    /// Closes.
    pub close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// Memory of a type that only travels through.
type Any = *mut c_void;
/// A name of a file.
type Path = *const c_char;

functions! {
    fn open64(path: Path, flags: c_int, mode: mode_t) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn closefrom(first: c_int) -> ();
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int;
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn lockf64(fd: c_int, command: c_int, len: off64_t) -> c_int;
    fn syscall(
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize
    ) -> c_long;

    fn read(fd: c_int, data: Any, len: size_t) -> ssize_t;
    fn readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    fn pread64(fd: c_int, data: Any, len: size_t, offset: off64_t) -> ssize_t;
    fn preadv64(fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t) -> ssize_t;
    fn preadv64v2(
        fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t, flags: c_int
    ) -> ssize_t;
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    fn pwrite64(fd: c_int, data: *const c_void, len: size_t, offset: off64_t) -> ssize_t;
    fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    fn pwritev64(fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t) -> ssize_t;
    fn pwritev64v2(
        fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t, flags: c_int
    ) -> ssize_t;
    fn lseek64(fd: c_int, offset: off64_t, whence: c_int) -> off64_t;
    fn sync() -> ();
    fn syncfs(fd: c_int) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn sync_file_range(fd: c_int, offset: off64_t, len: off64_t, flags: c_uint) -> c_int;
    fn ftruncate64(fd: c_int, len: off64_t) -> c_int;
    fn fallocate64(fd: c_int, mode: c_int, offset: off64_t, len: off64_t) -> c_int;
    fn posix_fallocate64(fd: c_int, offset: off64_t, len: off64_t) -> c_int;
    fn posix_fadvise64(fd: c_int, offset: off64_t, len: off64_t, advice: c_int) -> c_int;
    fn readahead(fd: c_int, offset: off64_t, count: size_t) -> ssize_t;

    fn mmap64(
        address: Any, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t
    ) -> Any;
    fn mremap(address: Any, len: size_t, new: size_t, flags: c_int, to: Any) -> Any;
    fn munmap(address: Any, len: size_t) -> c_int;
    fn msync(address: Any, len: size_t, flags: c_int) -> c_int;
    fn mprotect(address: Any, len: size_t, protection: c_int) -> c_int;

    fn fstat64(fd: c_int, facts: Any) -> c_int;
    fn fchmod(fd: c_int, mode: mode_t) -> c_int;
    fn fchown(fd: c_int, user: c_uint, group: c_uint) -> c_int;
    fn futimens(fd: c_int, times: Any) -> c_int;
    fn futimes(fd: c_int, times: Any) -> c_int;
    fn fsetxattr(fd: c_int, name: Path, value: Any, len: size_t, flags: c_int) -> c_int;
    fn faccessat(at: c_int, path: Path, wanted: c_int, flags: c_int) -> c_int;
    fn utimensat(at: c_int, path: Path, times: Any, flags: c_int) -> c_int;
    fn renameat(at: c_int, from: Path, there: c_int, to: Path) -> c_int;
    fn renameat2(at: c_int, from: Path, there: c_int, to: Path, flags: c_uint) -> c_int;

    fn fopen64(path: Path, mode: *const c_char) -> *mut FILE;
    fn freopen64(path: Path, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fn fclose(stream: *mut FILE) -> c_int;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn fopencookie(cookie: Any, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn vfwprintf(stream: *mut FILE, format: *const wchar_t, list: Any) -> c_int;
    fn __isoc99_vfwscanf(stream: *mut FILE, format: *const wchar_t, list: Any) -> c_int;

    fn fork() -> pid_t;
    fn _Fork() -> pid_t;
    fn _exit(code: c_int) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: Any, fd: c_int, new: c_int) -> c_int;
}

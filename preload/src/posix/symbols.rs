//! The table of all interposed functions of the C library; everything else about them is derived
//! from it.
//!
//! One row is: kind, names, arguments, result, and the code to run when there is something to do.
//! Names of one row have the same meaning and the same arguments, as on all machines with 64-bit
//! `off_t`. Each name becomes an exported function and a way to the next one (`next::name`), and
//! one line of [`aggio_interposed_posix`]. The kind says when there is something to do:
//!
//! * `fd`: the first argument is a descriptor of ours; the code gets its open `file`,
//! * `out`: as `fd`; for other descriptors, everything of mode causal that is kept back is written
//!   out first,
//! * `any`: there are rules,
//! * `path`: there are rules; everything that is kept back is written out. The code has a result if
//!   a name means a file of ours, otherwise the call goes on.

use super::{environment, execute, spawn};
use aggio_posix::next::{Functions, Missing, Slot};
use aggio_posix::operations::{Call, Mapping, Transfer};
use aggio_posix::reason::Reason;
use aggio_posix::{
    containers, coupled, duplicate, errno, names, numbers, open, passthrough, process,
    readable_memory, served, settle, staged, standard, state, stdio, temporary, wide,
};
use libc::{
    FILE, c_char, c_int, c_long, c_uint, c_ulong, c_void, iovec, mode_t, off64_t, pid_t, size_t,
    ssize_t, wchar_t,
};

macro_rules! table {
    ($(
        $kind:ident [$first:ident $($name:ident)*] $arguments:tt -> $ret:ty
        = $($file:ident)? { $($body:tt)* };
    )*) => {
        /// The names of all interposed functions of the C library, one a line.
        #[unsafe(no_mangle)]
        pub extern "C" fn aggio_interposed_posix() -> *const c_char {
            const LEN: usize = spawn::NAMES.len() + TABLE.len() + 1;
            static NAMES: [u8; LEN] = joined();
            NAMES.as_ptr().cast()
        }

        const TABLE: &str = concat!(
            $(stringify!($first), "\n", $(stringify!($name), "\n",)*)*
        );

        $(rows! { [$first $($name)*] $kind $arguments [$ret] [$($file)?] { $($body)* } })*

        /// The next functions; called with the arguments of the interposed ones.
        #[allow(non_snake_case, dead_code, reason = "the names are the C library's")]
        pub mod next {
            use super::*;
            $(next! { $first $arguments [$ret] } $(next! { $name $arguments [$ret] })*)*

            /// Where they are.
            #[allow(non_upper_case_globals, reason = "the names are the C library's")]
            pub mod slots {
                use super::Slot;
                $(
                    pub static $first: Slot = Slot::new(concat!(stringify!($first), "\0"));
                    $(pub static $name: Slot = Slot::new(concat!(stringify!($name), "\0"));)*
                )*
            }
        }

        /// Looks all next functions up.
        pub fn resolve() {
            let _errno = errno::Keep::new();
            $(next::slots::$first.get(); $(next::slots::$name.get();)*)*
        }
    };
}

/// Two lists and a final zero.
const fn joined<const LEN: usize>() -> [u8; LEN] {
    let (one, two) = (TABLE.as_bytes(), spawn::NAMES.as_bytes());
    let mut all = [0; LEN];
    let mut index = 0;
    while index < one.len() + two.len() {
        all[index] = if index < one.len() { one[index] } else { two[index - one.len()] };
        index += 1;
    }
    all
}

/// Memory of a type that only travels through.
type Any = *mut c_void;
/// A name of a file.
type Path = *const c_char;

/// The flag of calls that do not follow a symbolic link.
const NOFOLLOW: c_int = libc::AT_SYMLINK_NOFOLLOW;
/// The flags of `open` that `creat` uses.
const CREATES: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

table! {
    // Opening and closing.
    any [open open64 __open __open64] (path: Path, flags: c_int, mode: mode_t) -> c_int
        = { open::open(libc::AT_FDCWD, path, flags, mode, || next::open64(path, flags, mode)) };
    any [__open_2 __open64_2] (path: Path, flags: c_int) -> c_int
        = { open::open(libc::AT_FDCWD, path, flags, 0, || next::__open64_2(path, flags)) };
    any [openat openat64] (at: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int
        = { open::open(at, path, flags, mode, || next::openat64(at, path, flags, mode)) };
    any [__openat_2 __openat64_2] (at: c_int, path: Path, flags: c_int) -> c_int
        = { open::open(at, path, flags, 0, || next::__openat64_2(at, path, flags)) };
    any [creat creat64] (path: Path, mode: mode_t) -> c_int
        = { open::open(libc::AT_FDCWD, path, CREATES, mode, || next::creat64(path, mode)) };
    any [open_by_handle_at] (mount: c_int, handle: Any, flags: c_int) -> c_int
        = { open::before(); open::adopt(next::open_by_handle_at(mount, handle, flags)) };
    any [mkstemp mkstemp64]
        (name: *mut c_char) -> c_int
        = { temporary::make(name, 0, 0, || next::mkstemp64(name)) };
    any [mkostemp mkostemp64] (name: *mut c_char, flags: c_int) -> c_int
        = { temporary::make(name, 0, flags, || next::mkostemp64(name, flags)) };
    any [mkstemps mkstemps64] (name: *mut c_char, suffix: c_int) -> c_int
        = { temporary::make(name, suffix, 0, || next::mkstemps64(name, suffix)) };
    any [mkostemps mkostemps64] (name: *mut c_char, suffix: c_int, flags: c_int) -> c_int
        = { temporary::make(name, suffix, flags, || next::mkostemps64(name, suffix, flags)) };
    any [close __close] (fd: c_int) -> c_int = { open::close(fd) };
    any [close_range] (first: c_uint, last: c_uint, flags: c_int) -> c_int
        = { open::close_range(first, last, flags) };
    any [closefrom] (first: c_int) -> () = { open::close_from(first) };

    // Descriptors of one description.
    fd [dup] (fd: c_int) -> c_int = file { duplicate::duplicate(file, fd, || next::dup(fd)) };
    any [dup2 __dup2] (old: c_int, new: c_int) -> c_int
        = { duplicate::replace(old, new, || next::dup2(old, new)) };
    any [dup3] (old: c_int, new: c_int, flags: c_int) -> c_int
        = { duplicate::replace(old, new, || next::dup3(old, new, flags)) };
    fd [fcntl fcntl64 __fcntl] (fd: c_int, command: c_int, argument: usize) -> c_int
        = file { duplicate::control(file, fd, command, argument) };

    // Reading.
    fd [read __read] (fd: c_int, data: Any, len: size_t) -> ssize_t
        = file { file.read(fd, &Transfer::one(data, len)) };
    fd [__read_chk] (fd: c_int, data: Any, len: size_t, room: size_t) -> ssize_t
        = file {
            if len > room {
                next::__read_chk(fd, data, len, room)
            } else {
                file.read(fd, &Transfer::one(data, len))
            }
        };
    fd [readv] (fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t
        = file { file.read(fd, &Transfer::list(vectors, count)) };
    fd [pread pread64 __pread64] (fd: c_int, data: Any, len: size_t, offset: off64_t) -> ssize_t
        = file { file.read(fd, &Transfer::one(data, len).at(offset)) };
    fd [__pread_chk __pread64_chk]
        (fd: c_int, data: Any, len: size_t, offset: off64_t, room: size_t) -> ssize_t
        = file {
            if len > room {
                next::__pread64_chk(fd, data, len, offset, room)
            } else {
                file.read(fd, &Transfer::one(data, len).at(offset))
            }
        };
    fd [preadv preadv64]
        (fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        = file { file.read(fd, &Transfer::list(vectors, count).at(offset)) };
    fd [preadv2 preadv64v2]
        (fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = file { file.read(fd, &Transfer::list(vectors, count).with_flags(offset, flags)) };

    // Writing.
    out [write __write] (fd: c_int, data: *const c_void, len: size_t) -> ssize_t
        = file { file.write(fd, &Transfer::one(data, len)) };
    out [writev] (fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t
        = file { file.write(fd, &Transfer::list(vectors, count)) };
    out [pwrite pwrite64 __pwrite64]
        (fd: c_int, data: *const c_void, len: size_t, offset: off64_t) -> ssize_t
        = file { file.write(fd, &Transfer::one(data, len).at(offset)) };
    out [pwritev pwritev64]
        (fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        = file { file.write(fd, &Transfer::list(vectors, count).at(offset)) };
    out [pwritev2 pwritev64v2]
        (fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = file { file.write(fd, &Transfer::list(vectors, count).with_flags(offset, flags)) };
    out [vdprintf] (fd: c_int, format: *const c_char, arguments: Any) -> c_int
        = file { served::print(file, fd, format, arguments) };
    out [__vdprintf_chk] (fd: c_int, flag: c_int, format: *const c_char, arguments: Any) -> c_int
        = file { served::print(file, fd, format, arguments) };

    // Positions, sizes, facts.
    fd [lseek lseek64 __lseek] (fd: c_int, offset: off64_t, whence: c_int) -> off64_t
        = file { file.seek(fd, offset, whence) };
    fd [fstat fstat64] (fd: c_int, facts: Any) -> c_int
        = file { file.call(fd, &Call::Facts(facts)) };
    any [__fxstat __fxstat64] (version: c_int, fd: c_int, facts: Any) -> c_int
        = {
            match served::of(fd) {
                Some(file) => file.call(fd, &Call::Facts(facts)),
                None => next::__fxstat64(version, fd, facts),
            }
        };
    fd [ftruncate ftruncate64] (fd: c_int, len: off64_t) -> c_int
        = file { file.call(fd, &Call::SetSize(len)) };
    fd [fallocate fallocate64] (fd: c_int, mode: c_int, offset: off64_t, len: off64_t) -> c_int
        = file { file.call(fd, &Call::Allocate { mode, offset, len }) };
    fd [posix_fallocate posix_fallocate64] (fd: c_int, offset: off64_t, len: off64_t) -> c_int
        = file { file.call(fd, &Call::Reserve { offset, len }) };
    fd [posix_fadvise posix_fadvise64]
        (fd: c_int, offset: off64_t, len: off64_t, advice: c_int) -> c_int
        = file { file.call(fd, &Call::Advise { offset, len, advice }) };
    fd [readahead] (fd: c_int, offset: off64_t, count: size_t) -> ssize_t
        = file { file.call(fd, &Call::ReadAhead { offset, count }) as ssize_t };
    fd [fsync] (fd: c_int) -> c_int = file { file.call(fd, &Call::Sync) };
    fd [fdatasync] (fd: c_int) -> c_int = file { file.call(fd, &Call::SyncData) };
    fd [sync_file_range] (fd: c_int, offset: off64_t, len: off64_t, flags: c_uint) -> c_int
        = file { file.call(fd, &Call::SyncRange { offset, len, flags }) };
    any [syncfs] (fd: c_int) -> c_int
        = {
            settle::all();
            match served::of(fd) {
                Some(file) => file.call(fd, &Call::SyncAll),
                None => next::syncfs(fd),
            }
        };
    any [sync] () -> () = { settle::all(); next::sync() };
    fd [flock] (fd: c_int, operation: c_int) -> c_int
        = file { file.call(fd, &Call::Lock(operation)) };
    fd [lockf lockf64] (fd: c_int, command: c_int, len: off64_t) -> c_int
        = file { file.call(fd, &Call::LockRange { command, len }) };
    fd [ioctl] (fd: c_int, request: c_ulong, argument: usize) -> c_int
        = file { file.call(fd, &Call::Device { request, argument }) };
    fd [fchmod] (fd: c_int, mode: mode_t) -> c_int = file { file.call(fd, &Call::Mode(mode)) };
    fd [fchown] (fd: c_int, user: c_uint, group: c_uint) -> c_int
        = file { file.call(fd, &Call::Owner { user, group }) };
    fd [futimens] (fd: c_int, times: Any) -> c_int = file { file.call(fd, &Call::Times(times)) };
    fd [futimes] (fd: c_int, times: Any) -> c_int
        = file { file.call(fd, &Call::CoarseTimes(times)) };
    fd [fsetxattr] (fd: c_int, name: Path, value: Any, len: size_t, flags: c_int) -> c_int
        = file { file.call(fd, &Call::Attribute { name, value, len, flags }) };

    // Memory, and bytes that the kernel moves.
    any [mmap mmap64]
        (address: Any, len: size_t, protection: c_int, flags: c_int, fd: c_int,
         offset: off64_t) -> Any
        = { served::map(fd, &Mapping { address, len, protection, flags, offset }) };
    any [munmap] (address: Any, len: size_t) -> c_int
        = {
            readable_memory::forget();
            containers::forget_copies(address as usize, len);
            next::munmap(address, len)
        };
    any [mremap] (address: Any, len: size_t, new: size_t, flags: c_int, to: Any) -> Any
        = {
            readable_memory::forget();
            containers::remap(address, len, new, flags, to)
        };
    any [mprotect] (address: Any, len: size_t, protection: c_int) -> c_int
        = {
            readable_memory::forget();
            containers::protect(address, len, protection)
        };
    any [msync] (address: Any, len: size_t, flags: c_int) -> c_int
        = { containers::msync(address, len, flags) };
    any [shmdt] (address: Any) -> c_int = { readable_memory::forget(); next::shmdt(address) };
    any [sendfile sendfile64] (to: c_int, from: c_int, offset: Any, len: size_t) -> ssize_t
        = {
            let kernel = || next::sendfile64(to, from, offset, len);
            served::between(from, to, kernel, || served::send(to, from, offset.cast(), len))
        };
    any [copy_file_range]
        (from: c_int, at: Any, to: c_int, there: Any, len: size_t, flags: c_uint) -> ssize_t
        = {
            let kernel = || next::copy_file_range(from, at, to, there, len, flags);
            served::between(from, to, kernel, || errno::fail(libc::EXDEV))
        };
    any [splice]
        (from: c_int, at: Any, to: c_int, there: Any, len: size_t, flags: c_uint) -> ssize_t
        = {
            let kernel = || next::splice(from, at, to, there, len, flags);
            // On a container the kernel fails.
            served::between(from, to, kernel, kernel)
        };
    any [aio_read aio_read64] (block: *mut c_int) -> c_int
        = { passthrough::before_asynchronous(block); next::aio_read64(block) };
    any [aio_write aio_write64] (block: *mut c_int) -> c_int
        = { passthrough::before_asynchronous(block); next::aio_write64(block) };
    any [aio_fsync aio_fsync64] (operation: c_int, block: *mut c_int) -> c_int
        = { passthrough::before_asynchronous(block); next::aio_fsync64(operation, block) };
    any [lio_listio lio_listio64]
        (mode: c_int, list: *const *mut c_int, count: c_int, event: Any) -> c_int
        = { passthrough::before_list(list, count); next::lio_listio64(mode, list, count, event) };
    any [syscall]
        (number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long
        = { numbers::system_call(number, [a, b, c, d, e, f]) };

    // Names.
    path [stat stat64] (path: Path, facts: Any) -> c_int
        = { names::fstatat(libc::AT_FDCWD, path, facts, 0) };
    path [lstat lstat64] (path: Path, facts: Any) -> c_int
        = { names::fstatat(libc::AT_FDCWD, path, facts, NOFOLLOW) };
    path [fstatat fstatat64] (at: c_int, path: Path, facts: Any, flags: c_int) -> c_int
        = { names::fstatat(at, path, facts, flags) };
    path [__xstat __xstat64] (version: c_int, path: Path, facts: Any) -> c_int
        = { names::fstatat(libc::AT_FDCWD, path, facts, 0) };
    path [__lxstat __lxstat64] (version: c_int, path: Path, facts: Any) -> c_int
        = { names::fstatat(libc::AT_FDCWD, path, facts, NOFOLLOW) };
    path [__fxstatat __fxstatat64]
        (version: c_int, at: c_int, path: Path, facts: Any, flags: c_int) -> c_int
        = { names::fstatat(at, path, facts, flags) };
    path [statx] (at: c_int, path: Path, flags: c_int, mask: c_uint, facts: Any) -> c_int
        = { names::statx(at, path, flags, facts) };
    any [truncate truncate64] (path: Path, len: off64_t) -> c_int
        = {
            open::before();
            match names::truncate(path, len) {
                Some(result) => result,
                None => next::truncate64(path, len),
            }
        };
    any [rename] (from: Path, to: Path) -> c_int
        = {
            settle::before_rename();
            match names::rename(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) {
                Some(result) => result,
                None => losing!(libc::AT_FDCWD, to, next::rename(from, to)),
            }
        };
    any [renameat] (at: c_int, from: Path, there: c_int, to: Path) -> c_int
        = {
            settle::before_rename();
            match names::rename(at, from, there, to, 0) {
                Some(result) => result,
                None => losing!(there, to, next::renameat(at, from, there, to)),
            }
        };
    any [renameat2] (at: c_int, from: Path, there: c_int, to: Path, flags: c_uint) -> c_int
        = {
            settle::before_rename();
            match names::rename(at, from, there, to, flags) {
                Some(result) => result,
                None if flags != 0 => next::renameat2(at, from, there, to, flags),
                None => losing!(there, to, next::renameat2(at, from, there, to, 0)),
            }
        };
    any [unlink] (path: Path) -> c_int = {
            settle::before_rename();
            match names::unlink(libc::AT_FDCWD, path, 0) {
                Some(result) => result,
                None => staged::losing(libc::AT_FDCWD, path, || next::unlink(path)),
            }
        };
    any [unlinkat] (at: c_int, path: Path, flags: c_int) -> c_int
        = {
            settle::before_rename();
            match names::unlink(at, path, flags) {
                Some(result) => result,
                None if flags & libc::AT_REMOVEDIR == 0 => {
                    staged::losing(at, path, || next::unlinkat(at, path, flags))
                }
                None => containers::without_directory(at, path, || next::unlinkat(at, path, flags)),
            }
        };
    any [remove] (path: Path) -> c_int = {
            settle::before_rename();
            match names::unlink(libc::AT_FDCWD, path, 0) {
                Some(result) => result,
                None => losing!(libc::AT_FDCWD, path, next::remove(path)),
            }
        };
    path [link] (from: Path, to: Path) -> c_int
        = { names::link((libc::AT_FDCWD, from), (libc::AT_FDCWD, to)) };
    path [linkat] (at: c_int, from: Path, there: c_int, to: Path, flags: c_int) -> c_int
        = { names::link((at, from), (there, to)) };
    path [chmod] (path: Path, mode: mode_t) -> c_int
        = { names::fchmodat(libc::AT_FDCWD, path, mode, 0) };
    path [fchmodat] (at: c_int, path: Path, mode: mode_t, flags: c_int) -> c_int
        = { names::fchmodat(at, path, mode, flags) };
    path [chown] (path: Path, user: c_uint, group: c_uint) -> c_int
        = { names::fchownat(libc::AT_FDCWD, path, user, group, 0) };
    path [lchown] (path: Path, user: c_uint, group: c_uint) -> c_int
        = { names::fchownat(libc::AT_FDCWD, path, user, group, NOFOLLOW) };
    path [fchownat] (at: c_int, path: Path, user: c_uint, group: c_uint, flags: c_int) -> c_int
        = { names::fchownat(at, path, user, group, flags) };
    path [utime] (path: Path, times: Any) -> c_int
        = { names::utime(path, times) };
    path [utimes] (path: Path, times: Any) -> c_int
        = { names::utimes(libc::AT_FDCWD, path, times, 0) };
    path [lutimes] (path: Path, times: Any) -> c_int
        = { names::utimes(libc::AT_FDCWD, path, times, NOFOLLOW) };
    path [futimesat] (at: c_int, path: Path, times: Any) -> c_int
        = { names::utimes(at, path, times, 0) };
    path [utimensat] (at: c_int, path: Path, times: Any, flags: c_int) -> c_int
        = { names::utimensat(at, path, times, flags) };
    path [setxattr] (path: Path, name: Path, value: Any, len: size_t, flags: c_int) -> c_int
        = { names::change_attribute(path, true) };
    path [lsetxattr] (path: Path, name: Path, value: Any, len: size_t, flags: c_int) -> c_int
        = { names::change_attribute(path, false) };
    any [getxattr] (path: Path, name: Path, value: Any, len: size_t) -> ssize_t
        = {
            names::attribute(path, true).unwrap_or_else(|| next::getxattr(path, name, value, len))
        };
    any [lgetxattr] (path: Path, name: Path, value: Any, len: size_t) -> ssize_t
        = {
            names::attribute(path, false)
                .unwrap_or_else(|| next::lgetxattr(path, name, value, len))
        };
    any [listxattr] (path: Path, list: Any, len: size_t) -> ssize_t
        = {
            names::attributes(path, true).unwrap_or_else(|| next::listxattr(path, list, len))
        };
    any [llistxattr] (path: Path, list: Any, len: size_t) -> ssize_t
        = {
            names::attributes(path, false).unwrap_or_else(|| next::llistxattr(path, list, len))
        };
    any [access] (path: Path, wanted: c_int) -> c_int
        = {
            names::access(libc::AT_FDCWD, path, wanted, 0)
                .unwrap_or_else(|| next::access(path, wanted))
        };
    any [eaccess euidaccess] (path: Path, wanted: c_int) -> c_int
        = {
            names::access(libc::AT_FDCWD, path, wanted, 0)
                .unwrap_or_else(|| next::eaccess(path, wanted))
        };
    any [faccessat] (at: c_int, path: Path, wanted: c_int, flags: c_int) -> c_int
        = {
            let told = names::access(at, path, wanted, flags);
            told.unwrap_or_else(|| next::faccessat(at, path, wanted, flags))
        };

    // Directories, which containers are not.
    any [readdir readdir64] (directory: Any) -> *mut libc::dirent64
        = {
            coupled::readdir(directory, || loop {
                let entry = next::readdir64(directory);
                if containers::readdir(directory, entry) {
                    break entry;
                }
            })
        };
    any [closedir] (directory: Any) -> c_int
        = { coupled::closedir(directory, || next::closedir(directory)) };
    any [rewinddir] (directory: Any) -> ()
        = { coupled::rewound(directory); next::rewinddir(directory) };
    any [seekdir] (directory: Any, place: c_long) -> ()
        = { coupled::rewound(directory); next::seekdir(directory, place) };
    any [scandir scandir64]
        (path: Path, to: *mut *mut *mut libc::dirent64, filter: coupled::Filter,
         order: coupled::Compare) -> c_int
        = {
            let count = next::scandir64(path, to, filter, order);
            coupled::scandir(path, to, (filter, order), count)
        };
    any [glob glob64] (pattern: Path, flags: c_int, failed: Any, to: *mut coupled::Globbed) -> c_int
        = { coupled::glob(flags, to, |flags| next::glob64(pattern, flags, failed, to)) };
    any [opendir] (path: Path) -> Any = {
            if containers::is_no_directory(path) {
                std::ptr::null_mut()
            } else {
                next::opendir(path)
            }
        };
    any [chdir] (path: Path) -> c_int = {
            if containers::is_no_directory(path) { -1 } else { next::chdir(path) }
        };
    any [rmdir] (path: Path) -> c_int = {
            settle::before_rename();
            match names::unlink(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) {
                Some(result) => result,
                None => containers::without_directory(libc::AT_FDCWD, path, || next::rmdir(path)),
            }
        };
    any [chroot] (path: Path) -> c_int = { settle::before_rename(); next::chroot(path) };

    // Processes.
    any [fork __fork] () -> pid_t = { process::fork() };
    any [_Fork] () -> pid_t = { process::bare_fork() };
    any [execve] (path: Path, arguments: Any, variables: Any) -> c_int = {
            process::before_exec();
            match containers::instead(path) {
                Some(found) => execute::run(found, arguments as _, variables as _, false),
                None => {
                    next::execve(path, arguments, environment::passed_on(variables as _).as_ptr())
                }
            }
        };
    any [execv] (path: Path, arguments: Any) -> c_int = {
            process::before_exec();
            match containers::instead(path) {
                Some(found) => execute::run(found, arguments as _, environment::own(), false),
                None => match environment::passed_on(environment::own()) {
                    same if same.is_as_given() => next::execv(path, arguments),
                    other => next::execve(path, arguments, other.as_ptr()),
                },
            }
        };
    any [execvp] (path: Path, arguments: Any) -> c_int = {
            process::before_exec();
            match containers::instead_in_path(path) {
                Some(found) => execute::run(found, arguments as _, environment::own(), true),
                None => match environment::passed_on(environment::own()) {
                    same if same.is_as_given() => next::execvp(path, arguments),
                    other => next::execvpe(path, arguments, other.as_ptr()),
                },
            }
        };
    any [execvpe] (path: Path, arguments: Any, variables: Any) -> c_int = {
            process::before_exec();
            match containers::instead_in_path(path) {
                Some(found) => execute::run(found, arguments as _, variables as _, true),
                None => {
                    next::execvpe(path, arguments, environment::passed_on(variables as _).as_ptr())
                }
            }
        };
    any [fexecve] (fd: c_int, arguments: Any, variables: Any) -> c_int = {
            process::before_exec();
            match containers::instead_of(fd) {
                Some(found) => execute::run(found, arguments as _, variables as _, false),
                None => {
                    next::fexecve(fd, arguments, environment::passed_on(variables as _).as_ptr())
                }
            }
        };
    any [execveat]
        (at: c_int, path: Path, arguments: Any, variables: Any, flags: c_int) -> c_int = {
            process::before_exec();
            let is_empty = readable_memory::readable(path.cast(), 1) && *path == 0;
            let open = flags & libc::AT_EMPTY_PATH != 0 && is_empty;
            let found = match (open, at) {
                (true, _) => containers::instead_of(at),
                (false, libc::AT_FDCWD) => containers::instead(path),
                _ => None,
            };
            match found {
                Some(found) => execute::run(found, arguments as _, variables as _, false),
                None => {
                    let environment = environment::passed_on(variables as _);
                    next::execveat(at, path, arguments, environment.as_ptr(), flags)
                },
            }
        };
    any [posix_spawn]
        (pid: Any, path: Path, actions: Any, attributes: Any, arguments: Any,
         variables: Any) -> c_int
        = {
            process::before_program(Reason::Spawn);
            match containers::instead(path) {
                Some(found) => {
                    execute::spawn(found, pid, actions, attributes, arguments, variables)
                }
                None => {
                    let environment = environment::passed_on(variables as _);
                    next::posix_spawn(
                        pid, path, actions, attributes, arguments, environment.as_ptr()
                    )
                }
            }
        };
    any [posix_spawnp]
        (pid: Any, path: Path, actions: Any, attributes: Any, arguments: Any,
         variables: Any) -> c_int
        = {
            process::before_program(Reason::Spawn);
            match containers::instead_in_path(path) {
                Some(found) => {
                    execute::spawn(found, pid, actions, attributes, arguments, variables)
                }
                None => {
                    let environment = environment::passed_on(variables as _);
                    next::posix_spawnp(
                        pid, path, actions, attributes, arguments, environment.as_ptr()
                    )
                }
            }
        };
    any [posix_spawn_file_actions_adddup2] (actions: Any, fd: c_int, new: c_int) -> c_int
        = {
            served::demote(fd, Reason::Spawn);
            process::add_duplicate(actions, fd, new)
        };
    any [system] (command: *const c_char) -> c_int
        = { process::before_program(Reason::Spawn); next::system(command) };
    any [popen] (command: *const c_char, mode: *const c_char) -> *mut FILE
        = { process::before_program(Reason::Spawn); next::popen(command, mode) };
    any [_exit _Exit] (code: c_int) -> c_int = { process::exit_now(code) };
    any [quick_exit] (code: c_int) -> c_int = { process::at_exit(); next::quick_exit(code) };
    any [abort] () -> c_int = { process::at_abort(); next::abort() };

    // Streams.
    any [fopen fopen64]
        (path: Path, mode: *const c_char) -> *mut FILE
        = { stdio::fopen(path, mode) };
    any [freopen freopen64] (path: Path, mode: *const c_char, stream: *mut FILE) -> *mut FILE
        = { stdio::reopen(path, mode, stream) };
    any [fclose] (stream: *mut FILE) -> c_int = { coupled::fclose(stream) };
    fd [fdopen] (fd: c_int, mode: *const c_char) -> *mut FILE
        = file { stdio::on_descriptor(file, fd, mode) };
    any [fopencookie] (cookie: Any, mode: *const c_char, functions: Functions) -> *mut FILE
        = { next::fopencookie(cookie, mode, functions) };

    // Wide characters on streams.
    any [fputwc putwc fputwc_unlocked putwc_unlocked]
        (character: wchar_t, stream: *mut FILE) -> c_uint
        = {
            if wide::is_ours(stream) {
                wide::put(character, stream)
            } else {
                next::fputwc(character, stream)
            }
        };
    any [putwchar putwchar_unlocked] (character: wchar_t) -> c_uint
        = {
            let out = standard::output();
            if wide::is_ours(out) { wide::put(character, out) } else { next::putwchar(character) }
        };
    any [getwchar getwchar_unlocked] () -> c_uint
        = {
            let input = standard::input();
            if wide::is_ours(input) { wide::get(input) } else { next::getwchar() }
        };
    any [vwprintf] (format: *const wchar_t, list: Any) -> c_int
        = {
            let out = standard::output();
            if wide::is_ours(out) {
                wide::print(out, format, list)
            } else {
                next::vwprintf(format, list)
            }
        };
    any [__vwprintf_chk] (flag: c_int, format: *const wchar_t, list: Any) -> c_int
        = {
            let out = standard::output();
            if wide::is_ours(out) {
                wide::print(out, format, list)
            } else {
                next::__vwprintf_chk(flag, format, list)
            }
        };
    any [fputws fputws_unlocked] (text: *const wchar_t, stream: *mut FILE) -> c_int
        = {
            if wide::is_ours(stream) {
                wide::put_text(text, stream)
            } else {
                next::fputws(text, stream)
            }
        };
    any [fgetwc getwc fgetwc_unlocked getwc_unlocked] (stream: *mut FILE) -> c_uint
        = { if wide::is_ours(stream) { wide::get(stream) } else { next::fgetwc(stream) } };
    any [fgetws fgetws_unlocked] (text: *mut wchar_t, len: c_int, stream: *mut FILE) -> *mut wchar_t
        = {
            if wide::is_ours(stream) {
                wide::get_text(text, len, stream)
            } else {
                next::fgetws(text, len, stream)
            }
        };
    any [__fgetws_chk __fgetws_unlocked_chk]
        (text: *mut wchar_t, room: size_t, len: c_int, stream: *mut FILE) -> *mut wchar_t
        = {
            if wide::is_ours(stream) && usize::try_from(len).is_ok_and(|len| len <= room) {
                wide::get_text(text, len, stream)
            } else {
                next::__fgetws_chk(text, room, len, stream)
            }
        };
    any [ungetwc] (character: c_uint, stream: *mut FILE) -> c_uint
        = {
            if wide::is_ours(stream) {
                wide::unget(character, stream)
            } else {
                next::ungetwc(character, stream)
            }
        };
    any [fwide] (stream: *mut FILE, mode: c_int) -> c_int
        = { if wide::is_ours(stream) { mode.signum() } else { next::fwide(stream, mode) } };
    any [vfwprintf] (stream: *mut FILE, format: *const wchar_t, list: Any) -> c_int
        = {
            if wide::is_ours(stream) {
                wide::print(stream, format, list)
            } else {
                next::vfwprintf(stream, format, list)
            }
        };
    any [__vfwprintf_chk]
        (stream: *mut FILE, flag: c_int, format: *const wchar_t, list: Any) -> c_int
        = {
            if wide::is_ours(stream) {
                wide::print(stream, format, list)
            } else {
                next::__vfwprintf_chk(stream, flag, format, list)
            }
        };
    any [__isoc99_vfwscanf] (stream: *mut FILE, format: *const wchar_t, list: Any) -> c_int
        = {
            if wide::is_ours(stream) {
                wide::scan(stream, format, list)
            } else {
                next::__isoc99_vfwscanf(stream, format, list)
            }
        };
    any [vfwscanf] (stream: *mut FILE, format: *const wchar_t, list: Any) -> c_int
        = {
            if wide::is_ours(stream) {
                wide::scan(stream, format, list)
            } else {
                next::vfwscanf(stream, format, list)
            }
        };

    // Messages to other processes.
    any [sendmsg] (socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t
        = { passthrough::before_message(message); next::sendmsg(socket, message, flags) };
    any [sendmmsg]
        (socket: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int
        = {
            passthrough::before_messages(messages, count);
            next::sendmmsg(socket, messages, count, flags)
        };
    any [send] (socket: c_int, data: Any, len: size_t, flags: c_int) -> ssize_t
        = { settle::causal(); next::send(socket, data, len, flags) };
    any [sendto]
        (socket: c_int, data: Any, len: size_t, flags: c_int, to: Any, room: c_uint) -> ssize_t
        = { settle::causal(); next::sendto(socket, data, len, flags, to, room) };
    any [vmsplice] (fd: c_int, vectors: *const iovec, count: size_t, flags: c_uint) -> ssize_t
        = { settle::causal(); next::vmsplice(fd, vectors, count, flags) };
    any [kill] (process: pid_t, signal: c_int) -> c_int
        = { settle::all(); next::kill(process, signal) };
    any [killpg] (group: pid_t, signal: c_int) -> c_int
        = { settle::all(); next::killpg(group, signal) };
    any [raise] (signal: c_int) -> c_int = { settle::all(); next::raise(signal) };
    any [sigqueue] (process: pid_t, signal: c_int, value: usize) -> c_int
        = { settle::causal(); next::sigqueue(process, signal, value) };
    any [sem_post] (semaphore: Any) -> c_int = { settle::causal(); next::sem_post(semaphore) };
    any [semop] (set: c_int, operations: Any, count: size_t) -> c_int
        = { settle::causal(); next::semop(set, operations, count) };
    any [msgsnd] (queue: c_int, message: Any, len: size_t, flags: c_int) -> c_int
        = { settle::causal(); next::msgsnd(queue, message, len, flags) };
    any [mq_send] (queue: c_int, data: Any, len: size_t, priority: c_uint) -> c_int
        = { settle::causal(); next::mq_send(queue, data, len, priority) };
    any [eventfd_write] (fd: c_int, value: u64) -> c_int
        = { settle::causal(); next::eventfd_write(fd, value) };
}

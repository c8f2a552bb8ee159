//! System calls by their numbers (`syscall`): those that mean a container go the way of their
//! functions.

use super::super::errno;
use super::super::state;
use super::{change, data, facts, live, locks, mapping, names, open, rename, table};
use libc::{c_char, c_int, c_long, c_uint, c_void, off64_t};

/// The result of the call; `None` if it does not concern a container.
///
/// # Safety
/// As the call demands.
pub unsafe fn system_call(
    number: c_long,
    a: [usize; 6],
    kernel: impl FnOnce() -> c_long,
) -> Option<c_long> {
    if !state::has_containers() {
        return None;
    }
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { by_name(number, a) } {
        return Some(done.into());
    }
    // SAFETY: as above.
    if let Some(done) = unsafe { on_memory(number, a) } {
        return Some(done);
    }
    if !table::has(a[0] as c_int) {
        return match number {
            libc::SYS_mmap if table::has(a[4] as c_int) && !is_anonymous(a[3]) => {
                // SAFETY: as above.
                Some(unsafe { map(a) })
            }
            libc::SYS_copy_file_range if table::has(a[2] as c_int) => Some(refused(libc::EXDEV)),
            _ => None,
        };
    }
    // SAFETY: as above.
    unsafe { on_descriptor(number, a, kernel) }
}

/// Calls that change mappings.
///
/// # Safety
/// As the call demands.
unsafe fn on_memory(number: c_long, a: [usize; 6]) -> Option<c_long> {
    let address = a[0] as *mut c_void;
    // SAFETY: the caller's promise.
    unsafe {
        match number {
            libc::SYS_munmap => {
                live::forget_copies(a[0], a[1]);
                None
            }
            libc::SYS_mremap => {
                let to = a[4] as *mut c_void;
                Some(live::remap(address, a[1], a[2], a[3] as c_int, to) as c_long)
            }
            libc::SYS_mprotect => Some(live::protect(address, a[1], a[2] as c_int).into()),
            libc::SYS_msync => Some(live::msync(address, a[1], a[2] as c_int).into()),
            _ => None,
        }
    }
}

fn refused(error: c_int) -> c_long {
    errno::fail(error) as c_long
}

fn is_anonymous(flags: usize) -> bool {
    flags as c_int & libc::MAP_ANONYMOUS != 0
}

/// # Safety
/// As `mmap` demands.
unsafe fn map(a: [usize; 6]) -> c_long {
    let (address, fd) = (a[0] as *mut c_void, a[4] as c_int);
    // SAFETY: the caller's promise.
    unsafe {
        mapping::map(address, a[1], a[2] as c_int, a[3] as c_int, fd, a[5] as off64_t) as c_long
    }
}

/// Calls with a name as the first argument, or with a directory before a name.
///
/// # Safety
/// As the call demands.
unsafe fn by_name(number: c_long, a: [usize; 6]) -> Option<c_int> {
    const HERE: c_int = libc::AT_FDCWD;
    let (at, name, second) = (a[0] as c_int, a[0] as *const c_char, a[1] as *const c_char);
    // SAFETY: the caller's promise.
    unsafe {
        match number {
            libc::SYS_openat => open::open(at, second, a[2] as c_int, a[3] as c_uint),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => open::open(HERE, name, a[1] as c_int, a[2] as c_uint),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                open::open(HERE, name, flags, a[1] as c_uint)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat => names::fstatat(HERE, name, a[1] as *mut c_void, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lstat => {
                names::fstatat(HERE, name, a[1] as *mut c_void, libc::AT_SYMLINK_NOFOLLOW)
            }
            libc::SYS_newfstatat => names::fstatat(at, second, a[2] as *mut c_void, a[3] as c_int),
            libc::SYS_statx => {
                names::statx(at, second, a[2] as c_int, a[3] as c_uint, a[4] as *mut c_void)
            }
            libc::SYS_truncate => names::truncate(name, a[1] as off64_t),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => names::unlink(HERE, name, 0),
            libc::SYS_unlinkat => names::unlink(at, second, a[2] as c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => rename::rename(HERE, name, HERE, second, 0),
            libc::SYS_renameat2 => {
                rename::rename(at, second, a[2] as c_int, a[3] as *const c_char, a[4] as c_uint)
            }
            libc::SYS_utimensat => {
                names::utimensat(at, second, a[2] as *const c_void, a[3] as c_int)
            }
            _ => None,
        }
    }
}

/// Calls with the descriptor of a container as the first argument.
///
/// # Safety
/// As the call demands.
unsafe fn on_descriptor(
    number: c_long,
    a: [usize; 6],
    kernel: impl FnOnce() -> c_long,
) -> Option<c_long> {
    let (fd, len, offset) = (a[0] as c_int, a[2], a[3] as off64_t);
    let (to, from, list) = (a[1] as *mut c_void, a[1] as *const c_void, a[1] as *const libc::iovec);
    let (first, second, count) = (a[1] as off64_t, a[2] as off64_t, a[2] as c_int);
    // SAFETY: the caller's promise.
    let moved = unsafe {
        match number {
            libc::SYS_read => data::read(fd, to, len),
            libc::SYS_write => data::write(fd, from, len),
            libc::SYS_pread64 => data::pread(fd, to, len, offset),
            libc::SYS_pwrite64 => data::pwrite(fd, from, len, offset),
            libc::SYS_readv => data::readv(fd, list, count),
            libc::SYS_writev => data::writev(fd, list, count),
            libc::SYS_preadv => data::preadv(fd, list, count, offset),
            libc::SYS_pwritev => data::pwritev(fd, list, count, offset),
            libc::SYS_preadv2 => data::preadv2(fd, list, count, offset, a[5] as c_int),
            libc::SYS_pwritev2 => data::pwritev2(fd, list, count, offset, a[5] as c_int),
            libc::SYS_lseek => data::seek(fd, first, a[2] as c_int) as isize,
            libc::SYS_copy_file_range => errno::fail(libc::EXDEV),
            _ => return other(number, a, fd, (first, second), kernel),
        }
    };
    Some(moved as c_long)
}

/// # Safety
/// As the call demands.
unsafe fn other(
    number: c_long,
    a: [usize; 6],
    fd: c_int,
    (first, second): (off64_t, off64_t),
    kernel: impl FnOnce() -> c_long,
) -> Option<c_long> {
    // SAFETY: the caller's promise.
    let done = unsafe {
        match number {
            libc::SYS_fstat => facts::fstat(fd, a[1] as *mut c_void),
            libc::SYS_ftruncate => change::set_size(fd, first),
            libc::SYS_fallocate => change::allocate(fd, a[1] as c_int, second, a[3] as off64_t),
            libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => {
                change::synchronise(fd)
            }
            libc::SYS_syncfs => change::synchronise_all(fd),
            libc::SYS_flock => locks::flock(fd, a[1] as c_int),
            libc::SYS_fchmod => change::change_mode(fd, a[1] as libc::mode_t),
            libc::SYS_fchown => change::change_owner(fd, a[1] as c_uint, a[2] as c_uint),
            libc::SYS_fsetxattr => errno::fail(libc::EOPNOTSUPP) as c_int,
            libc::SYS_ioctl => change::ioctl(fd, a[1] as libc::c_ulong, a[2]),
            libc::SYS_close => open::close(fd),
            libc::SYS_dup => open::duplicate(fd, kernel() as c_int),
            libc::SYS_fcntl => open::control(fd, a[1] as c_int, a[2]),
            _ => return None,
        }
    };
    Some(done.into())
}

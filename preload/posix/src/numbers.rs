//! System calls by their numbers (`syscall`): known calls go the way of their functions; before any
//! other, everything is in the kernel.

use super::duplicate::{control, duplicate, replace};
use super::operations::{Call, Mapping, Transfer};
use super::reason::Reason;
use super::{
    containers, coupled, errno, flush, names, next, open, process, readable_memory, served, settle,
    state,
};
use libc::{c_char, c_int, c_long, c_uint, c_void, iovec, mode_t, off64_t};
use std::sync::atomic::Ordering::Relaxed;

/// `syscall`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn system_call(number: c_long, a: [usize; 6]) -> c_long {
    // SAFETY: the caller's arguments, passed on.
    let kernel = || unsafe { next::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    // SAFETY: the caller's promise.
    let known = unsafe {
        by_name(number, a)
            .map(c_long::from)
            .or_else(|| on_memory(number, a))
            .or_else(|| on_descriptor(number, a))
            .or_else(|| of_descriptors(number, a, kernel))
    };
    known.unwrap_or_else(|| {
        before(number, a);
        kernel()
    })
}

/// Calls with a name as the first argument, or with a directory before a name.
///
/// # Safety
/// As the call demands.
unsafe fn by_name(number: c_long, a: [usize; 6]) -> Option<c_int> {
    use names::{fstatat, rename, statx, truncate, unlink, utimensat};
    const HERE: c_int = libc::AT_FDCWD;
    let (at, name, second) = (a[0] as c_int, a[0] as *const c_char, a[1] as *const c_char);
    // SAFETY: the caller's promise.
    unsafe {
        match number {
            libc::SYS_openat => open::by_name(at, second, a[2] as c_int, a[3] as mode_t),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => open::by_name(HERE, name, a[1] as c_int, a[2] as mode_t),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                open::by_name(HERE, name, flags, a[1] as mode_t)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat => fstatat(HERE, name, a[1] as *mut c_void, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lstat => fstatat(HERE, name, a[1] as *mut c_void, libc::AT_SYMLINK_NOFOLLOW),
            libc::SYS_newfstatat => fstatat(at, second, a[2] as *mut c_void, a[3] as c_int),
            libc::SYS_statx => statx(at, second, a[2] as c_int, a[4] as *mut c_void),
            libc::SYS_truncate => truncate(name, a[1] as off64_t),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => unlink(HERE, name, 0),
            libc::SYS_unlinkat => unlink(at, second, a[2] as c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => rename(HERE, name, HERE, second, 0),
            libc::SYS_renameat2 => {
                rename(at, second, a[2] as c_int, a[3] as *const c_char, a[4] as c_uint)
            }
            libc::SYS_utimensat => utimensat(at, second, a[2] as *const c_void, a[3] as c_int),
            _ => None,
        }
    }
}

/// Calls that make or change mappings.
///
/// # Safety
/// As the call demands.
unsafe fn on_memory(number: c_long, a: [usize; 6]) -> Option<c_long> {
    let address = a[0] as *mut c_void;
    if matches!(number, libc::SYS_munmap | libc::SYS_mremap | libc::SYS_mprotect) {
        readable_memory::forget();
    }
    // SAFETY: the caller's promise.
    unsafe {
        match number {
            libc::SYS_mmap => {
                let (protection, flags, offset) = (a[2] as c_int, a[3] as c_int, a[5] as off64_t);
                let mapping = Mapping { address, len: a[1], protection, flags, offset };
                Some(served::map(a[4] as c_int, &mapping) as c_long)
            }
            libc::SYS_munmap => {
                containers::forget_copies(a[0], a[1]);
                None
            }
            libc::SYS_mremap => {
                let to = a[4] as *mut c_void;
                Some(containers::remap(address, a[1], a[2], a[3] as c_int, to) as c_long)
            }
            libc::SYS_mprotect => Some(containers::protect(address, a[1], a[2] as c_int).into()),
            libc::SYS_msync => Some(containers::msync(address, a[1], a[2] as c_int).into()),
            _ => None,
        }
    }
}

/// Calls with a descriptor of ours as the first argument.
///
/// # Safety
/// As the call demands.
unsafe fn on_descriptor(number: c_long, a: [usize; 6]) -> Option<c_long> {
    let fd = c_int::try_from(a[0]).ok()?;
    let file = served::of(fd)?;
    // SAFETY: the caller's arguments.
    let one = || unsafe { Transfer::one(a[1] as *const c_void, a[2]) };
    // SAFETY: as above.
    let list = || unsafe { Transfer::list(a[1] as *const iovec, a[2] as c_int) };
    let (offset, flags) = (a[3] as off64_t, a[5] as c_int);
    // SAFETY: the caller's promise.
    let done = unsafe {
        match number {
            libc::SYS_read => file.read(fd, &one()),
            libc::SYS_pread64 => file.read(fd, &one().at(offset)),
            libc::SYS_readv => file.read(fd, &list()),
            libc::SYS_preadv => file.read(fd, &list().at(offset)),
            libc::SYS_preadv2 => file.read(fd, &list().with_flags(offset, flags)),
            libc::SYS_write => file.write(fd, &one()),
            libc::SYS_pwrite64 => file.write(fd, &one().at(offset)),
            libc::SYS_writev => file.write(fd, &list()),
            libc::SYS_pwritev => file.write(fd, &list().at(offset)),
            libc::SYS_pwritev2 => file.write(fd, &list().with_flags(offset, flags)),
            libc::SYS_lseek => file.seek(fd, a[1] as off64_t, a[2] as c_int) as isize,
            _ => file.call(fd, &call(number, a)?) as isize,
        }
    };
    Some(done as c_long)
}

/// The call of a number that moves no bytes of the program.
fn call(number: c_long, a: [usize; 6]) -> Option<Call> {
    let (first, second, third) = (a[1] as off64_t, a[2] as off64_t, a[3] as off64_t);
    Some(match number {
        libc::SYS_fstat => Call::Facts(a[1] as *mut c_void),
        libc::SYS_ftruncate => Call::SetSize(first),
        libc::SYS_fallocate => Call::Allocate { mode: a[1] as c_int, offset: second, len: third },
        libc::SYS_fsync => Call::Sync,
        libc::SYS_fdatasync => Call::SyncData,
        libc::SYS_sync_file_range => {
            Call::SyncRange { offset: first, len: second, flags: a[3] as c_uint }
        }
        libc::SYS_syncfs => {
            settle::all();
            Call::SyncAll
        }
        libc::SYS_flock => Call::Lock(a[1] as c_int),
        libc::SYS_fchmod => Call::Mode(a[1] as mode_t),
        libc::SYS_fchown => Call::Owner { user: a[1] as c_uint, group: a[2] as c_uint },
        libc::SYS_fsetxattr => Call::Attribute {
            name: a[1] as *const c_char,
            value: a[2] as *mut c_void,
            len: a[3],
            flags: a[4] as c_int,
        },
        libc::SYS_ioctl => Call::Device { request: a[1] as libc::c_ulong, argument: a[2] },
        _ => return None,
    })
}

/// Calls that make, share or close descriptors, or use two of them.
///
/// # Safety
/// As the call demands.
unsafe fn of_descriptors(
    number: c_long,
    a: [usize; 6],
    kernel: impl Fn() -> c_long,
) -> Option<c_long> {
    let (fd, second) = (a[0] as c_int, a[1] as c_int);
    let kernel = || kernel() as c_int;
    let done = match number {
        libc::SYS_close => open::close(fd),
        libc::SYS_close_range => open::close_range(a[0] as u32, a[1] as u32, a[2] as c_int),
        libc::SYS_dup => match served::of(fd) {
            Some(file) => duplicate(file, fd, kernel),
            None => kernel(),
        },
        libc::SYS_dup2 | libc::SYS_dup3 => replace(fd, second, kernel),
        // SAFETY: the caller's promise.
        libc::SYS_fcntl => unsafe { control(served::of(fd)?, fd, second, a[2]) },
        libc::SYS_copy_file_range => {
            let refused = || errno::fail(libc::EXDEV);
            let moved = || kernel() as isize;
            return Some(served::between(fd, a[2] as c_int, moved, refused) as c_long);
        }
        libc::SYS_openat | libc::SYS_openat2 | libc::SYS_open | libc::SYS_creat => {
            coupled::complete_everything();
            open::before();
            open::adopt(kernel())
        }
        _ => return None,
    };
    Some(done.into())
}

/// Before a call that the kernel performs.
fn before(number: c_long, a: [usize; 6]) {
    match number {
        libc::SYS_futex | libc::SYS_gettid | libc::SYS_getrandom | libc::SYS_getpid => {}
        libc::SYS_io_uring_setup
        | libc::SYS_io_uring_enter
        | libc::SYS_io_uring_register
        | libc::SYS_io_setup
        | libc::SYS_io_submit => {
            state::flags().ring.store(true, Relaxed);
            // The files of the requests cannot be seen: the kernel serves all of them for good.
            coupled::complete_everything();
            settle::each(|file, held| flush::make_native(file, held, Reason::Ring));
        }
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => {
            coupled::complete_everything();
            process::before_vfork();
        }
        libc::SYS_execve | libc::SYS_execveat => process::before_exec(),
        libc::SYS_exit_group => process::at_exit(),
        _ => before_unknown(a),
    }
}

/// Any argument may be a descriptor of ours.
fn before_unknown(arguments: [usize; 6]) {
    settle::all();
    for argument in arguments {
        if let Ok(fd) = c_int::try_from(argument)
            && let Some(file) = served::of(fd)
        {
            file.settle(fd, Some(Reason::Unknown));
        }
    }
}

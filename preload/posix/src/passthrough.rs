//! Calls that give a file to somebody else, or let somebody else work on it.

use super::next;
use super::reason::Reason;
use super::{containers, coupled, descriptors, flush, manage, open, process, settle, spool, state};
use libc::{c_int, c_long};
use std::sync::atomic::Ordering::Relaxed;

/// Before a message: leaves the files of descriptors in it to the kernel, because other processes
/// receive them.
///
/// # Safety
/// `message` points to a message or to nothing.
pub unsafe fn before_message(message: *const libc::msghdr) {
    settle::causal();
    if message.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the kernel's own macros walk the control data.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                let bytes = (*header).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                for index in 0..bytes / size_of::<c_int>() {
                    settle::demote(data.add(index).read_unaligned(), Reason::Passed);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// The file of an asynchronous request, which the C library serves in a thread of its own.
///
/// # Safety
/// `block` points to a control block, which begins with the descriptor, or to nothing.
pub unsafe fn before_asynchronous(block: *const c_int) {
    if !block.is_null() {
        // SAFETY: the caller's promise.
        settle::demote(unsafe { *block }, Reason::Asynchronous);
    }
}

/// The files of a list of asynchronous requests.
///
/// # Safety
/// As the C library demands.
pub unsafe fn before_list(list: *const *mut c_int, count: c_int) {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe { before_asynchronous(*list.add(index)) };
    }
}

/// Descriptors in several messages.
///
/// # Safety
/// As the C library demands.
pub unsafe fn before_messages(messages: *const libc::mmsghdr, count: libc::c_uint) {
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        unsafe { before_message(&raw const (*messages.add(index)).msg_hdr) };
    }
}

/// Everything that is open goes to the kernel for good: it will be used in a way that cannot be
/// seen.
fn demote_all(reason: Reason) {
    coupled::complete_everything();
    settle::each(|file, held| flush::make_native(file, held, reason));
}

/// `syscall`: known calls go the way of their functions; before any other, everything is in the
/// kernel.
///
/// # Safety
/// As the C library demands.
pub unsafe fn system_call(number: c_long, a: [usize; 6]) -> c_long {
    let fd = a[0] as c_int;
    // SAFETY: the caller's arguments, passed on.
    let kernel = || unsafe { next::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    // SAFETY: as above.
    if let Some(done) = unsafe { containers::system_call(number, a, kernel) } {
        return done;
    }
    match number {
        libc::SYS_futex | libc::SYS_gettid | libc::SYS_getrandom | libc::SYS_getpid => kernel(),
        libc::SYS_close => c_long::from(open::close(fd)),
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => descend(number, a, kernel),
        libc::SYS_openat | libc::SYS_openat2 | libc::SYS_open | libc::SYS_creat => {
            coupled::complete_everything();
            open::before();
            c_long::from(open::adopt(kernel() as c_int))
        }
        libc::SYS_io_uring_setup
        | libc::SYS_io_uring_enter
        | libc::SYS_io_uring_register
        | libc::SYS_io_setup
        | libc::SYS_io_submit => {
            state::flags().ring.store(true, Relaxed);
            demote_all(Reason::Ring);
            kernel()
        }
        libc::SYS_mmap => {
            manage::before_mapping(a[4] as c_int, a[3] as c_int);
            kernel()
        }
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => {
            coupled::complete_everything();
            process::before_vfork();
            kernel()
        }
        libc::SYS_execve | libc::SYS_execveat => {
            process::before_exec();
            kernel()
        }
        libc::SYS_exit_group => {
            process::at_exit();
            kernel()
        }
        libc::SYS_close_range => {
            c_long::from(open::close_range(a[0] as u32, a[1] as u32, a[2] as c_int))
        }
        _ => {
            before_unknown(a);
            kernel()
        }
    }
}

fn descend(number: c_long, a: [usize; 6], kernel: impl FnOnce() -> c_long) -> c_long {
    let kernel = || kernel() as c_int;
    let new = match number {
        libc::SYS_dup if descriptors::has(a[0] as c_int) => {
            super::duplicate::duplicate(a[0] as c_int, kernel)
        }
        libc::SYS_dup => {
            coupled::complete(a[0] as c_int);
            kernel()
        }
        _ => super::duplicate::replace(a[0] as c_int, a[1] as c_int, kernel),
    };
    c_long::from(new)
}

/// Any argument may be a descriptor of ours.
fn before_unknown(arguments: [usize; 6]) {
    settle::all();
    for argument in arguments {
        if let Ok(fd) = c_int::try_from(argument)
            && (descriptors::has(fd) || coupled::has(fd))
        {
            settle::settle(fd, Some(Reason::Unknown));
        }
    }
}

/// `closefrom`.
pub fn close_from(first: c_int) {
    let from = first.max(0) as u32;
    let own = coupled::own_among(from, u32::MAX);
    if spool::descriptor().is_none() && !containers::any() && own.is_empty() {
        open::forget_range(from, u32::MAX);
        let left = coupled::leave(from, u32::MAX);
        // SAFETY: a plain number.
        unsafe { next::closefrom(first) };
        left.tell();
    } else {
        open::close_range(from, u32::MAX, 0);
    }
}

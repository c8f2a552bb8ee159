//! Calls that give a file to somebody else, or let somebody else work on it.

use super::reason::Reason;
use super::{served, settle};
use libc::c_int;

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
                    served::demote(data.add(index).read_unaligned(), Reason::Passed);
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
        served::demote(unsafe { *block }, Reason::Asynchronous);
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

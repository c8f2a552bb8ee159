//! Sizes, modes, times, and making written bytes durable.

use super::super::next;
use super::super::times::{finer, pointer, times};
use super::super::{errno, readable_memory};
use super::open_file::State;
use super::table::OpenContainer;
use super::{data, live, locks};
use agg_core::Extent;
use libc::{c_int, c_uint, c_ulong, c_void, mode_t, off64_t};

/// Lets `act` change the container.
fn change(
    open: &OpenContainer,
    act: impl FnOnce(&mut State) -> agg_core::Result<()>,
) -> Result<(), c_int> {
    let _errno = errno::Keep::new();
    open.locked(|_, state| act(state))
}

/// `ftruncate`.
pub(super) fn set_size(open: &OpenContainer, size: off64_t) -> Result<(), c_int> {
    let size = u64::try_from(size).map_err(|_| libc::EINVAL)?;
    open.may_write().map_err(|_| libc::EINVAL)?;
    let set = change(open, |state| state.writer()?.set_size(size));
    live::renew(open.identity);
    set
}

/// `fallocate`: punches holes, writes zeros and extends the file. It reserves no room, because logs
/// get theirs when they are written.
pub(super) fn allocate(
    open: &OpenContainer,
    mode: c_int,
    offset: off64_t,
    len: off64_t,
) -> Result<(), c_int> {
    const HOLE: c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    const ZEROS: c_int = libc::FALLOC_FL_ZERO_RANGE;
    let (Ok(start), Ok(len)) = (u64::try_from(offset), u64::try_from(len)) else {
        return Err(libc::EINVAL);
    };
    if len == 0 {
        return Err(libc::EINVAL);
    }
    let end = start.checked_add(len).filter(|end| i64::try_from(*end).is_ok());
    let range = Extent::between(start, end.ok_or(libc::EFBIG)?);
    open.may_write()?;
    let done = change(open, |state| {
        match mode {
            0 | libc::FALLOC_FL_KEEP_SIZE => {}
            HOLE | ZEROS => state.writer()?.punch(range)?,
            _ if mode == ZEROS | libc::FALLOC_FL_KEEP_SIZE => state.writer()?.punch(range)?,
            _ => {
                let words = "a container has no such kind of allocation";
                let error = agg_core::Error::new(agg_core::ErrorClass::UnsupportedOperation, words);
                return Err(error.with_errno(libc::EOPNOTSUPP));
            }
        }
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        if keeps { Ok(()) } else { state.writer()?.grow(range.end()) }
    });
    live::renew(open.identity);
    done
}

/// `fsync` and `fdatasync`.
pub(super) fn synchronise(open: &OpenContainer) -> Result<(), c_int> {
    change(open, State::sync)
}

/// `ioctl`.
pub(super) fn ioctl(
    open: &OpenContainer,
    fd: c_int,
    request: c_ulong,
    argument: usize,
) -> Result<c_int, c_int> {
    const OF_DESCRIPTORS: [c_ulong; 2] = [0x5451 /* FIOCLEX */, 0x5450];
    match request {
        _ if OF_DESCRIPTORS.contains(&request) => {
            // SAFETY: only the descriptor is concerned.
            let done = unsafe { next::ioctl(fd, request, argument) };
            locks::inherit(fd);
            Ok(done)
        }
        libc::FIONREAD => {
            let bytes = unread(open, fd)?;
            let to = argument as *mut c_int;
            if !readable_memory::writable(to.cast(), size_of::<c_int>()) {
                return Err(libc::EFAULT);
            }
            // SAFETY: it can be written.
            unsafe { to.write_unaligned(bytes) };
            Ok(0)
        }
        _ => Err(libc::ENOTTY),
    }
}

/// Bytes between the position and the end.
fn unread(open: &OpenContainer, fd: c_int) -> Result<c_int, c_int> {
    let rest = i128::from(open.size()?) - i128::from(data::position(fd)?);
    Ok(rest as c_int)
}

/// `fchmod`.
pub(super) fn change_mode(open: &OpenContainer, mode: mode_t) -> Result<(), c_int> {
    change(open, |state| state.container()?.set_mode(mode & 0o7777))
}

/// The user or group that an argument of `chown` means; `None` for the highest number, which
/// changes nothing.
pub(super) fn who(id: c_uint) -> Option<u32> {
    (id != c_uint::MAX).then_some(id)
}

/// `fchown`.
pub(super) fn change_owner(open: &OpenContainer, user: c_uint, group: c_uint) -> Result<(), c_int> {
    change(open, |state| state.container()?.set_owner(who(user), who(group)))
}

/// `futimens`.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn change_times(open: &OpenContainer, both: *const c_void) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let [access, changed] = unsafe { times(both) }?;
    change(open, |state| state.container()?.set_times(access, changed))
}

/// `futimes`.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn change_times_coarsely(
    open: &OpenContainer,
    both: *const c_void,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let times = unsafe { finer(both.cast()) }?;
    // SAFETY: null or two times.
    unsafe { change_times(open, pointer(times.as_ref())) }
}

//! Sizes, modes, times, and making written bytes durable.

use super::super::next;
use super::super::{errno, readable_memory};
use super::open_file::State;
use super::table::OpenContainer;
use super::{data, live, locks};
use agg_core::Extent;
use libc::{c_int, c_uint, c_ulong, c_void, mode_t, off64_t, timespec, timeval};
use std::time::{Duration, SystemTime};

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

/// The two times of `utimensat`: last access and last change; `None` leaves one as it is.
///
/// # Safety
/// `times` points to two of them, or to nothing.
pub(super) unsafe fn times(times: *const c_void) -> Result<[Option<SystemTime>; 2], c_int> {
    let now = SystemTime::now();
    if times.is_null() {
        return Ok([Some(now); 2]);
    }
    if !readable_memory::readable(times.cast(), size_of::<[timespec; 2]>()) {
        return Err(libc::EFAULT);
    }
    // SAFETY: they can be read.
    let both = unsafe { *times.cast::<[timespec; 2]>() };
    let mut read = [None; 2];
    for (time, told) in read.iter_mut().zip(both) {
        *time = match told.tv_nsec {
            libc::UTIME_OMIT => None,
            libc::UTIME_NOW => Some(now),
            nanoseconds @ 0..1_000_000_000 => Some(moment(told.tv_sec, nanoseconds as u64)),
            _ => return Err(libc::EINVAL),
        };
    }
    Ok(read)
}

fn moment(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    second.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from_nanos(nanoseconds)
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

/// Two times in microseconds, as `utimensat` takes them.
///
/// # Safety
/// `times` points to two of them, or to nothing.
pub(super) unsafe fn finer(times: *const timeval) -> Result<Option<[timespec; 2]>, c_int> {
    if times.is_null() {
        return Ok(None);
    }
    if !readable_memory::readable(times.cast(), size_of::<[timeval; 2]>()) {
        return Err(libc::EFAULT);
    }
    // SAFETY: they can be read.
    let both = unsafe { *times.cast::<[timeval; 2]>() };
    if both.iter().any(|time| !(0..1_000_000).contains(&time.tv_usec)) {
        return Err(libc::EINVAL);
    }
    Ok(Some(both.map(|time| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1000 })))
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

/// The times, as a call takes them.
pub(super) fn pointer(times: Option<&[timespec; 2]>) -> *const c_void {
    times.map_or(std::ptr::null(), |times| times.as_ptr().cast())
}

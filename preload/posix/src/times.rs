//! The times that programs give files, as the C library's functions take them.

use super::readable_memory;
use libc::{c_int, c_void, timespec, timeval};
use std::time::{Duration, SystemTime};

/// The two times of `utimensat`: last access and last change; `None` leaves one as it is.
///
/// # Safety
/// `times` points to two of them, or to nothing.
pub unsafe fn times(times: *const c_void) -> Result<[Option<SystemTime>; 2], c_int> {
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

/// Two times in microseconds, as `utimensat` takes them.
///
/// # Safety
/// `times` points to two of them, or to nothing.
pub unsafe fn finer(times: *const timeval) -> Result<Option<[timespec; 2]>, c_int> {
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

/// The times, as a call takes them.
pub fn pointer(times: Option<&[timespec; 2]>) -> *const c_void {
    times.map_or(std::ptr::null(), |times| times.as_ptr().cast())
}

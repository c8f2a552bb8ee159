//! The calls that ask whether requests are complete and leave them as they are.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::mpi;
use crate::pending::progress;
use libc::c_int;

/// `MPI_Request_get_status`.
///
/// # Safety
/// As MPI demands, here and below.
pub unsafe fn get_status(
    _: &'static Abi,
    request: usize,
    flag: *mut c_int,
    status: Opaque,
) -> c_int {
    progress();
    // SAFETY: the caller's arguments, passed on.
    unsafe { mpi::Request_get_status(request, flag, status) }
}

/// `MPI_Request_get_status_all`, also for libraries that have only the single question.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_status_all(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    flag: *mut c_int,
    statuses: Opaque,
) -> c_int {
    progress();
    // SAFETY: the caller's arguments, passed on, or read as MPI describes them.
    unsafe {
        if mpi::has(&mpi::symbol::Request_get_status_all) {
            return mpi::Request_get_status_all(count, requests, flag, statuses);
        }
        *flag = 1;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let mut one: c_int = 0;
            let status = abi.status_at(statuses, index);
            let code = mpi::Request_get_status(abi.load(requests, index), &raw mut one, status);
            if code != 0 || one == 0 {
                *flag = 0;
                return code;
            }
        }
        0
    }
}

/// `MPI_Request_get_status_any`, also for libraries that have only the single question.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_status_any(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    index: *mut c_int,
    flag: *mut c_int,
    status: Opaque,
) -> c_int {
    progress();
    // SAFETY: the caller's arguments, passed on, or read as MPI describes them.
    unsafe {
        if mpi::has(&mpi::symbol::Request_get_status_any) {
            return mpi::Request_get_status_any(count, requests, index, flag, status);
        }
        let mut active = false;
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let request = abi.load(requests, at);
            if request == abi.handles.request_null {
                continue;
            }
            active = true;
            let code = mpi::Request_get_status(request, flag, status);
            if code != 0 || *flag != 0 {
                *index = c_int::try_from(at).unwrap_or(c_int::MAX);
                return code;
            }
        }
        *index = abi.constants.undefined;
        if active {
            *flag = 0;
            return 0;
        }
        // No active request: the answer is yes, with an empty status.
        mpi::Request_get_status(abi.handles.request_null, flag, status)
    }
}

/// `MPI_Request_get_status_some`, also for libraries that have only the single question.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_status_some(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    completed: *mut c_int,
    indices: *mut c_int,
    statuses: Opaque,
) -> c_int {
    progress();
    // SAFETY: the caller's arguments, passed on, or read as MPI describes them.
    unsafe {
        if mpi::has(&mpi::symbol::Request_get_status_some) {
            return mpi::Request_get_status_some(count, requests, completed, indices, statuses);
        }
        let (mut found, mut active) = (0usize, false);
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let request = abi.load(requests, at);
            if request == abi.handles.request_null {
                continue;
            }
            active = true;
            let mut flag: c_int = 0;
            let status = abi.status_at(statuses, found);
            let code = mpi::Request_get_status(request, &raw mut flag, status);
            if code != 0 {
                return code;
            }
            if flag != 0 {
                *indices.add(found) = c_int::try_from(at).unwrap_or(c_int::MAX);
                found += 1;
            }
        }
        let found = c_int::try_from(found).unwrap_or(c_int::MAX);
        *completed = if active { found } else { abi.constants.undefined };
        0
    }
}

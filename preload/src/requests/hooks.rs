//! The calls that complete requests. Each first lets pending operations proceed, leaves the
//! completing to the real library, and then reports the errors of file operations: through the
//! handler of their file, as the call's code, and in the statuses of a call with several requests.

use super::blocking::by_asking;
use super::{Operation, find};
use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::forward;
use crate::pending::{any_work, progress};
use crate::{errors, mpi};
use agg_core::Error;
use libc::c_int;
use std::sync::Arc;

/// The file operations among the requests of one call, by index.
struct Ours(Vec<(usize, Arc<Operation>)>);

impl Ours {
    /// # Safety
    /// `requests` is an array of `count` requests.
    unsafe fn among(abi: &Abi, count: c_int, requests: Opaque) -> Self {
        let count = if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
        // SAFETY: the caller's promise.
        let handle = |index| unsafe { abi.load(requests, index) };
        Self((0..count).filter_map(|index| Some((index, find(handle(index))?))).collect())
    }

    fn error_of(&self, index: c_int) -> Option<(Arc<Operation>, Error)> {
        let index = usize::try_from(index).ok()?;
        let (_, operation) = self.0.iter().find(|one| one.0 == index)?;
        Some((operation.clone(), operation.take_error()?))
    }

    /// The code for a call that completed the one request at `index` with `code`.
    fn single(&self, index: c_int, code: c_int) -> c_int {
        match self.error_of(index) {
            Some((operation, error)) => errors::raise_on_file(&operation.file, error),
            None => code,
        }
    }

    /// The code for a call that completed the requests at `indices` and filled `statuses`.
    ///
    /// # Safety
    /// `statuses` has a status for each index, or is the ABI's `MPI_STATUSES_IGNORE`.
    unsafe fn several(
        &self,
        abi: &Abi,
        indices: impl Iterator<Item = c_int>,
        statuses: Opaque,
        code: c_int,
    ) -> c_int {
        let mut failed = Vec::new();
        let mut completed = 0;
        for index in indices {
            if let Some((operation, error)) = self.error_of(index) {
                let error = errors::raise_on_file(&operation.file, error);
                if error != 0 {
                    failed.push((completed, error));
                }
            }
            completed += 1;
        }
        if failed.is_empty() {
            return code;
        }
        let ignored = statuses as usize == abi.constants.statuses_ignore as usize;
        if !ignored && !statuses.is_null() {
            // Unless the library reported errors of its own, it left this field alone.
            for place in 0..if code == 0 { completed } else { 0 } {
                // SAFETY: the caller's promise.
                unsafe { abi.set_status_error(statuses, place, 0) };
            }
            for (place, error) in failed {
                // SAFETY: as above.
                unsafe { abi.set_status_error(statuses, place, error) };
            }
        }
        abi.constants.err_in_status
    }
}

/// `MPI_Wait`.
///
/// # Safety
/// As MPI demands, here and below.
pub unsafe fn wait(abi: &'static Abi, request: Opaque, status: Opaque) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Wait(request, status);
        }
        let ours = Ours::among(abi, 1, request);
        let code = by_asking(|flag| mpi::Test(request, flag, status));
        ours.single(0, code)
    }
}

/// `MPI_Test`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn test(abi: &'static Abi, request: Opaque, flag: *mut c_int, status: Opaque) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Test(request, flag, status);
        }
        progress();
        let ours = Ours::among(abi, 1, request);
        let code = mpi::Test(request, flag, status);
        if code != 0 || *flag == 0 { code } else { ours.single(0, code) }
    }
}

/// `MPI_Waitall`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn waitall(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    statuses: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Waitall(count, requests, statuses);
        }
        let ours = Ours::among(abi, count, requests);
        let code = by_asking(|flag| mpi::Testall(count, requests, flag, statuses));
        ours.several(abi, 0..count, statuses, code)
    }
}

/// `MPI_Testall`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn testall(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    flag: *mut c_int,
    statuses: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Testall(count, requests, flag, statuses);
        }
        progress();
        let ours = Ours::among(abi, count, requests);
        let code = mpi::Testall(count, requests, flag, statuses);
        if *flag == 0 { code } else { ours.several(abi, 0..count, statuses, code) }
    }
}

/// `MPI_Waitany`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn waitany(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    index: *mut c_int,
    status: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Waitany(count, requests, index, status);
        }
        let ours = Ours::among(abi, count, requests);
        let code = by_asking(|flag| mpi::Testany(count, requests, index, flag, status));
        ours.single(*index, code)
    }
}

/// `MPI_Testany`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn testany(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    index: *mut c_int,
    flag: *mut c_int,
    status: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Testany(count, requests, index, flag, status);
        }
        progress();
        let ours = Ours::among(abi, count, requests);
        let code = mpi::Testany(count, requests, index, flag, status);
        if *flag == 0 { code } else { ours.single(*index, code) }
    }
}

/// `MPI_Waitsome`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn waitsome(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    completed: *mut c_int,
    indices: *mut c_int,
    statuses: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Waitsome(count, requests, completed, indices, statuses);
        }
        let ours = Ours::among(abi, count, requests);
        let code = by_asking(|flag| {
            let code = mpi::Testsome(count, requests, completed, indices, statuses);
            *flag = c_int::from(code == 0 && *completed != 0);
            code
        });
        ours.some(abi, *completed, indices, statuses, code)
    }
}

/// `MPI_Testsome`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn testsome(
    abi: &'static Abi,
    count: c_int,
    requests: Opaque,
    completed: *mut c_int,
    indices: *mut c_int,
    statuses: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if !any_work() {
            return forward::MPI_Testsome(count, requests, completed, indices, statuses);
        }
        progress();
        let ours = Ours::among(abi, count, requests);
        let code = mpi::Testsome(count, requests, completed, indices, statuses);
        ours.some(abi, *completed, indices, statuses, code)
    }
}

impl Ours {
    /// As [`Ours::several`], for the first `completed` of `indices`.
    ///
    /// # Safety
    /// As there; `indices` has `completed` elements.
    unsafe fn some(
        &self,
        abi: &Abi,
        completed: c_int,
        indices: *mut c_int,
        statuses: Opaque,
        code: c_int,
    ) -> c_int {
        // A number below 0 is MPI_UNDEFINED: no request was active.
        let completed = usize::try_from(completed).unwrap_or(0);
        // SAFETY: the caller's promise.
        unsafe {
            let indices = (0..completed).map(|i| *indices.add(i));
            self.several(abi, indices, statuses, code)
        }
    }
}

/// `MPI_Request_free`: the operation goes on, but nobody will ask how it ended.
///
/// # Safety
/// As MPI demands.
pub unsafe fn request_free(abi: &'static Abi, request: Opaque) -> c_int {
    // SAFETY: the caller's argument, passed on.
    unsafe {
        if any_work() && !request.is_null() {
            progress();
            let handle = abi.load(request, 0);
            if let Some(operation) = find(handle) {
                if operation.let_go() {
                    abi.store(request, 0, abi.handles.request_null);
                    return 0;
                }
                operation.tell_error();
                super::forget(handle, &operation);
            }
        }
        forward::MPI_Request_free(request)
    }
}

//! What coupled files do with calls. The kernel performs them; the agent is notified of reads,
//! changes of size, and synchronisation.

use super::table::OpenCoupled;
use super::{agent, open, parts, step, stream};
use crate::next::{self, Functions};
use crate::operations::{Call, Left, Mapping, OpenFile, Transfer, not_mapped};
use crate::reason::Reason;
use crate::state::Inside;
use crate::{errno, settle};
use agg_core::spare_memory::Allowance;
use libc::{FILE, c_char, c_int, c_void, off64_t, ssize_t};

/// After `fsync` or `fdatasync` of `open`, which returned `done`: lets readers have the bytes that
/// were written so far, and gets the writes of other nodes.
pub(super) fn synchronised(open: &OpenCoupled, done: c_int) -> c_int {
    if done != 0 || !open.writes() {
        return done;
    }
    let Ok(client) = agent::client() else { return done };
    let inside = Inside::enter();
    let told = client.sync(open.handle()).and_then(|()| client.renew(open.handle()));
    drop(inside);
    told.map_or_else(|error| errno::fail(super::number(&error)) as c_int, |()| 0)
}

/// After `ftruncate` of `open`, which returned `done`: sets the size on other writing nodes, too.
pub(super) fn resized(open: &OpenCoupled, len: off64_t, done: c_int) -> c_int {
    if done != 0 || !open.writes() {
        return done;
    }
    let (Ok(size), Ok(client)) = (u64::try_from(len), agent::client()) else { return done };
    let inside = Inside::enter();
    let told = client.resize(open.handle(), size);
    drop(inside);
    told.map_or_else(|error| errno::fail(super::number(&error)) as c_int, |()| 0)
}

/// Before the kernel gives bytes of `fd` to others: fetches them, and counts them as read.
///
/// # Errors
/// `refusal` while the file is not whole, or the `errno` of the agent's error.
fn given_out(open: &OpenCoupled, fd: c_int, refusal: c_int) -> Result<(), c_int> {
    if !step::is_whole(open, fd) {
        return Err(refusal);
    }
    parts::fetch_all(open)?;
    open.raise(u64::MAX);
    Ok(())
}

/// Whether there is memory for the bytes that a call reserves. The kernel takes it until nothing is
/// left, and then kills processes.
fn has_memory(call: &Call) -> bool {
    let len = match *call {
        Call::Reserve { len, .. } => len,
        Call::Allocate { mode, len, .. } if mode & !libc::FALLOC_FL_KEEP_SIZE == 0 => len,
        _ => return true,
    };
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    u64::try_from(len).is_ok_and(|len| Allowance::default().take(len)) || len <= 0
}

impl OpenFile for OpenCoupled {
    fn read(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        let done = step::showing(self, fd, transfer);
        if let Ok(bytes @ 1..) = u64::try_from(done) {
            self.add(bytes);
        }
        done
    }

    fn read_for_stream(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        step::showing(self, fd, transfer)
    }

    fn write(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        settle::causal();
        step::announcing(self, fd, transfer)
    }

    fn seek(&'static self, fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
        if matches!(whence, libc::SEEK_DATA | libc::SEEK_HOLE) {
            parts::complete(self, fd);
        }
        // SAFETY: plain numbers.
        unsafe { next::lseek64(fd, offset, whence) }
    }

    unsafe fn call(&'static self, fd: c_int, call: &Call) -> c_int {
        if matches!(call, Call::Device { .. }) && !call.is_harmless() {
            parts::complete(self, fd);
        }
        if !has_memory(call) {
            return call.told(Err(libc::ENOSPC));
        }
        // SAFETY: the caller's arguments, passed on.
        let done = unsafe { call.kernel(fd) };
        match *call {
            Call::SetSize(len) => resized(self, len, done),
            Call::Sync | Call::SyncData => synchronised(self, done),
            _ => done,
        }
    }

    unsafe fn map(&'static self, fd: c_int, mapping: &Mapping) -> *mut c_void {
        if let Err(error) = given_out(self, fd, libc::ENODEV) {
            return not_mapped(error);
        }
        // SAFETY: the caller's promise.
        unsafe { mapping.kernel(fd) }
    }

    unsafe fn stream(
        &'static self,
        fd: c_int,
        mode: *const c_char,
        functions: Functions,
    ) -> *mut FILE {
        // SAFETY: the caller's promise.
        unsafe { stream::on(self, fd, mode, functions) }
    }

    fn duplicate(&'static self, _fd: c_int, kernel: &mut dyn FnMut() -> c_int) -> c_int {
        open::duplicated(self, kernel())
    }

    fn leave(&'static self, fd: c_int) -> Left {
        open::leave(fd)
    }

    fn settle(&'static self, fd: c_int, reason: Option<Reason>) {
        if reason.is_some() {
            parts::complete(self, fd);
        }
    }

    fn demote(&'static self, fd: c_int, _reason: Reason) {
        parts::complete(self, fd);
    }

    fn before_move(&'static self, fd: c_int, from: bool) -> Result<bool, c_int> {
        // Programs read and write if the kernel refuses.
        if from { given_out(self, fd, libc::EINVAL).map(|()| true) } else { Ok(true) }
    }
}

//! `ready=step`: the number of records of a netCDF file that is being written. The writer notifies
//! the agent of changes, and readers see the number of the agent instead of the one in the file.

use super::table::OpenCoupled;
use super::{agent, number, parts};
use crate::errno;
use crate::operations::Transfer;
use crate::state::Inside;
use agg_core::log;
use agg_core::log::Level;
use aggio_couple::{Before, NUMBER, covers_number};
use libc::{c_int, iovec, ssize_t};

/// Bytes of the magic number of the file and the number of records, at most.
const WIDEST: ssize_t = 12;

/// A write to `fd`. Reports a write to the number of records.
pub(super) fn announcing(open: &OpenCoupled, fd: c_int, transfer: &Transfer) -> ssize_t {
    let done = transfer.write(fd, None);
    if done <= 0 || !open.is_step() || !open.writes() {
        return done;
    }
    let start = transfer.offset.unwrap_or_else(|| parts::position(fd) - done as i64);
    if !u64::try_from(start).is_ok_and(|start| covers_number(start, done as u64)) {
        return done;
    }
    // Without buffers, netCDF writes the number before the last record; with buffers, at its sync.
    let before = if done <= WIDEST { Before::Others } else { Before::All };
    let errno = errno::Keep::new();
    let told = told(open, |client, open| client.announce(open.handle(), before));
    drop(errno);
    told.map_or_else(errno::fail, |()| done)
}

/// A read of `fd`. Reads of the number of records get the one that readers may see. The bytes do
/// not count as read, because the program may not get all of them.
pub(super) fn showing(open: &'static OpenCoupled, fd: c_int, transfer: &Transfer) -> ssize_t {
    let at = transfer.offset;
    // The kernel rejects invalid vectors.
    let vectors = transfer.vectors().unwrap_or_default();
    let len = vectors.iter().map(|one| one.iov_len as u64).fold(0, u64::saturating_add);
    let _read = match parts::before_read(open, fd, at, len) {
        Ok(read) => read,
        Err(error) => return errno::fail(error),
    };
    let mut shown = None;
    if open.is_step() && !open.writes() {
        let start = at.unwrap_or_else(|| parts::position(fd));
        let errno = errno::Keep::new();
        let records = match u64::try_from(start) {
            Ok(start) if covers_number(start, len) => {
                records(open).map(|found| found.map(|found| (start, found)))
            }
            Ok(start) if len > 0 => reach(open, start.saturating_add(len)).map(|()| None),
            _ => Ok(None),
        };
        drop(errno);
        match records {
            Ok(records) => shown = records,
            Err(error) => return errno::fail(error),
        }
    }
    let done = transfer.read(fd, None);
    let Ok(read @ 1..) = u64::try_from(done) else { return done };
    if let Some((start, (records, width))) = shown {
        open.set_told(records + 1);
        let bytes = &records.to_be_bytes()[8 - width..];
        for (index, byte) in (NUMBER as u64..).zip(bytes) {
            if let Some(place) = index.checked_sub(start).filter(|place| *place < read) {
                // SAFETY: the byte is one of those that were read.
                unsafe { put(vectors, place as usize, *byte) };
            }
        }
    }
    done
}

/// Returns the number of records that the program sees next, and the width of that number in bytes;
/// `None` if it sees all of the file.
fn records(open: &OpenCoupled) -> Result<Option<(u64, usize)>, c_int> {
    let records = told(open, |client, open| client.records(open.handle(), open.told()))?;
    if records.is_none() {
        open.set_there(u64::MAX);
    }
    Ok(records)
}

/// Lets the bytes before `end` be on this node: another process may have told this one of records
/// that did not come here.
fn reach(open: &OpenCoupled, end: u64) -> Result<(), c_int> {
    if end > open.there() {
        open.set_there(told(open, |client, open| client.reach(open.handle(), end))?);
    }
    Ok(())
}

/// # Safety
/// The vectors can be written, and have more than `place` bytes.
unsafe fn put(vectors: &[iovec], mut place: usize, byte: u8) {
    for one in vectors {
        if place < one.iov_len {
            // SAFETY: the caller's promise.
            unsafe { one.iov_base.cast::<u8>().add(place).write(byte) };
            return;
        }
        place -= one.iov_len;
    }
}

/// Whether `fd` may be read without the calls of this module. Not while the number of records in
/// the file differs from the number that readers may see.
pub(super) fn is_whole(open: &OpenCoupled, fd: c_int) -> bool {
    let is_whole = has_all(open);
    if !is_whole {
        let _errno = errno::Keep::new();
        let text = "a file that is being written (ready=step) can only be read with read and pread";
        log!(Level::Warn, "descriptor {fd}: {text}");
    }
    is_whole
}

/// Whether readers may see all of the file as it is.
pub(super) fn has_all(open: &OpenCoupled) -> bool {
    if !open.is_step() || open.writes() {
        return true;
    }
    let _errno = errno::Keep::new();
    matches!(told(open, |client, open| client.records(open.handle(), 0)), Ok(None))
}

/// Sends a request to the agent and returns the reply.
fn told<T>(
    open: &OpenCoupled,
    ask: impl FnOnce(&aggio_couple::Client, &OpenCoupled) -> std::io::Result<T>,
) -> Result<T, c_int> {
    let _inside = Inside::enter();
    agent::client().and_then(|client| ask(client, open)).map_err(|error| number(&error))
}

//! Opening and closing coupled files, and duplicates of their descriptors.

use super::facts::known;
use super::table::{self, Ended};
use super::{agent, names, number, parts};
use crate::descriptors;
use crate::errno;
use crate::next;
use crate::operations::Left;
use crate::report;
use crate::state::{self, Inside};
use agg_core::Extent;
use agg_core::log;
use agg_core::log::Level;
use agg_core::os;
use aggio_couple::{Open, Opened, is_on_disk};
use libc::{c_char, c_int, mode_t};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::time::Instant;

/// Opens a generation of a coupled file. Returns `None` if the name is not coupled, or refers to a
/// file on disk. `vacate` ends the open file that the new descriptor belonged to, if it was closed
/// unnoticed.
pub fn open(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    vacate: fn(c_int),
) -> Option<c_int> {
    if flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
        // The kernel handles descriptors that only refer to a path, and files without a name.
        let is_directory = flags & libc::O_TMPFILE == libc::O_DIRECTORY;
        let found = is_directory.then(|| known(at, path, flags & libc::O_NOFOLLOW == 0))??;
        return found.is_ok().then(|| errno::fail(libc::ENOTDIR) as c_int);
    }
    let is_new = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
    let name = names::coupled(at, path, flags & libc::O_NOFOLLOW == 0 && !is_new)?;
    crate::open::before();
    let before = errno::Keep::new();
    let opened = open_name(&name, flags, mode, vacate);
    drop(before);
    match opened {
        Err(error) if is_on_disk(&error) => None,
        Err(error) => Some(errno::fail(number(&error)) as c_int),
        Ok(fd) => Some(fd),
    }
}

fn open_name(name: &Path, flags: c_int, mode: mode_t, vacate: fn(c_int)) -> io::Result<c_int> {
    let _inside = Inside::enter();
    let access = flags & libc::O_ACCMODE;
    let writes = access != libc::O_RDONLY;
    if writes {
        state::note_writer();
    }
    if writes && !table::has_room() {
        // Without a record of the open, the generation would be complete if the process dies.
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let creates = flags & libc::O_CREAT != 0;
    let client = agent::client()?;
    let step = client.is_step(name);
    let parts = !writes && !step && parts::may_be_missing(client);
    let began = Instant::now();
    let opened = client.open(&Open {
        read: access != libc::O_WRONLY,
        write: writes,
        create: creates,
        exclusive: creates && flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        append: flags & libc::O_APPEND != 0,
        mode: mode & !if creates { os::umask() } else { 0 } & 0o7777,
        blocking: flags & libc::O_NONBLOCK == 0,
        parts,
        ..Open::new(name)
    })?;
    let (handle, generation) = (opened.handle, opened.generation);
    report::tell_coupled(name, generation, writes, began.elapsed());
    log!(Level::Debug, "{}: opened, generation {generation}", name.display());
    vacate(opened.fd.as_raw_fd());
    let (fd, known) = take(opened, flags, writes);
    if let Some(open) = known {
        if step {
            open.set_step();
        }
        if parts {
            parts::begin(open, client);
        }
        return Ok(fd);
    }
    let fetched =
        if parts { client.fetch(handle, &[Extent::new(0, u64::MAX)], 0) } else { Ok(true) };
    if writes || step || fetched.is_err() {
        // SAFETY: no other code uses the descriptor.
        unsafe { next::close(fd) };
        client.withdraw(handle)?;
        return Err(fetched.err().unwrap_or_else(|| io::Error::from_raw_os_error(libc::EMFILE)));
    }
    // The descriptor does not fit in the table: report it as closed, with unknown bytes read.
    let _ = client.close(handle, u64::MAX);
    Ok(fd)
}

/// Sets the flags that the program requested. Returns the descriptor, and its open if the table has
/// room for it.
fn take(
    opened: Opened,
    flags: c_int,
    writes: bool,
) -> (c_int, Option<&'static table::OpenCoupled>) {
    let fd = opened.fd.as_raw_fd();
    // SAFETY: plain numbers.
    unsafe {
        if flags & libc::O_CLOEXEC == 0 {
            next::fcntl(fd, libc::F_SETFD, 0);
        }
        if flags & libc::O_NONBLOCK != 0 {
            let status = flags & (libc::O_APPEND | libc::O_NONBLOCK);
            next::fcntl(fd, libc::F_SETFL, status as usize);
        }
    }
    let known = table::add(fd, opened.handle, writes);
    (opened.fd.into_raw_fd(), known)
}

/// Ends an earlier open of `fd` that was closed unnoticed, because a new open gets the number.
fn forget_closed(fd: c_int) {
    if !state::is_guest() {
        let _ = table::take(fd).map(tell_ended);
    }
}

/// Notifies the agent that an open has no descriptor left.
///
/// # Errors
/// The error of the agent, for example because the generation is lost.
pub(super) fn tell_ended(ended: Ended) -> Result<(), c_int> {
    let _errno = errno::Keep::new();
    let _inside = Inside::enter();
    let client = agent::client().map_err(|error| number(&error))?;
    match ended.writes {
        true => client.close(ended.handle, ended.moved).map_err(|error| number(&error)),
        false => {
            client.close_read(ended.handle, ended.moved);
            Ok(())
        }
    }
}

/// Takes `fd` out of the table, before it is closed; the agent is notified afterwards.
pub(super) fn leave(fd: c_int) -> Left {
    match table::take(fd) {
        Some(ended) => Left::After(Box::new(|| tell_ended(ended))),
        None => Left::Done(Ok(())),
    }
}

/// After a descriptor of `open` was duplicated: records that `new` shares it. Returns `new`.
pub(super) fn duplicated(open: &'static table::OpenCoupled, new: c_int) -> c_int {
    if new >= 0 && !state::is_guest() {
        let _errno = errno::Keep::new();
        forget_closed(new);
        if !descriptors::put(new, open) {
            log!(Level::Warn, "descriptor {new} of a coupled file is not followed");
        }
    }
    new
}

/// Returns the descriptors of the library from `first` to `last`, in order.
pub fn own_among(first: u32, last: u32) -> Vec<u32> {
    let own = agent::descriptors().into_iter().map(c_int::cast_unsigned);
    let mut own: Vec<_> = own.filter(|fd| (first..=last).contains(fd)).collect();
    own.sort_unstable();
    own
}

/// Whether a new file of this name is to be a coupled one.
pub fn is_wanted(name: *const c_char) -> bool {
    names::coupled(libc::AT_FDCWD, name, false).is_some()
}

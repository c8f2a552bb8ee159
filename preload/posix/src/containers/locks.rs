//! Locks of programs on containers: locks on a file of the container that all see, behind the
//! writers' own.
//!
//! `flock` and the locks of descriptions (`F_OFD_SETLK`) are held by a descriptor that belongs to
//! the open file and is inherited with it. The locks of a process (`fcntl`, `lockf`) are held by
//! one that belongs to the process and the container, and end when the process closes any
//! descriptor of the container.

use super::super::descriptors;
use super::super::errno;
use super::super::host::{LockFiles, process};
use super::super::next;
use super::super::state::{self, Inside};
use super::table::{self, OpenContainer};
use super::{placeholder, write_buffer};
use agg_core::blob::{self, LOCKS_FROM};
use agg_core::log::Level;
use libc::{c_int, off64_t};
use std::os::fd::IntoRawFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Lets `act` use the descriptors with the locks of this process.
fn own<T>(act: impl FnOnce(&mut LockFiles) -> Result<T, c_int>) -> Result<T, c_int> {
    process().locks.with(act).ok_or(libc::EDEADLK)?
}

/// A new description of the file that carries the locks of a container.
fn lock_file(open: &OpenContainer, make: bool) -> Result<c_int, c_int> {
    open.locked(|_, state| state.lock_file(make)).map(IntoRawFd::into_raw_fd)
}

/// The descriptor with the locks of this process on a container.
fn of_process(open: &OpenContainer) -> Result<c_int, c_int> {
    own(|files| match files.iter().find(|(identity, _)| *identity == open.identity) {
        Some((_, file)) => Ok(*file),
        None => {
            let file = lock_file(open, true)?;
            files.push((open.identity, file));
            Ok(file)
        }
    })
}

/// The descriptor with the locks of an open file.
fn of_description(fd: c_int, open: &'static OpenContainer, make: bool) -> Result<c_int, c_int> {
    match open.locks.load(Acquire) {
        known @ 0.. => Ok(known),
        _ => own(|_| {
            let known = open.locks.load(Acquire);
            if known >= 0 {
                return Ok(known);
            }
            let made = marked(fd, open, make)?;
            open.locks.store(made, Release);
            pass_on(open, made);
            Ok(made)
        }),
    }
}

/// A new descriptor for the locks of the open file that `fd` stands for. A program that inherits
/// both finds them by the position.
fn marked(fd: c_int, open: &OpenContainer, make: bool) -> Result<c_int, c_int> {
    let made = lock_file(open, make)?;
    let _inside = Inside::enter();
    let is_set = open.locked(|_, state| Ok(state.is_set()))?;
    if let (Some(mark), false) = (placeholder::inode(fd), is_set) {
        // SAFETY: plain numbers.
        unsafe { next::lseek64(made, mark, libc::SEEK_SET) };
    }
    Ok(made)
}

/// For a descriptor that other programs inherit: makes the descriptor for the locks beforehand, so
/// that their locks are also this program's. If that fails, they share locks only if this program
/// locks first.
pub(super) fn prepare(fd: c_int) {
    let _errno = errno::Keep::new();
    if let Some(open) = table::get(fd)
        && !state::is_guest()
    {
        let _ = of_description(fd, open, false);
    }
}

/// After close-on-exec of a descriptor changed, or another one was made: the locks of an open file
/// are inherited with it.
pub(super) fn inherit(fd: c_int) {
    // SAFETY: plain numbers.
    if unsafe { next::fcntl(fd, libc::F_GETFD, 0) } == 0 {
        prepare(fd);
    }
    let Some(open) = table::get(fd) else { return };
    if state::is_guest() {
        return lend(fd, fd);
    }
    let locks = open.locks.load(Acquire);
    if locks >= 0 {
        pass_on(open, locks);
    }
}

fn pass_on(open: &'static OpenContainer, locks: c_int) {
    let _errno = errno::Keep::new();
    let flag = |fd| {
        // SAFETY: plain numbers.
        let flags = unsafe { next::fcntl(fd, libc::F_GETFD, 0) };
        flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    let flags = if descriptors::of(open).any(flag) { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: plain numbers.
    unsafe { next::fcntl(locks, libc::F_SETFD, flags as usize) };
}

/// Takes over the locks of an open file that this program inherited, if there are some among
/// `descriptors`.
pub(super) fn attach(fd: c_int, open: &OpenContainer, descriptors: &[c_int]) {
    let Some(mark) = placeholder::inode(fd) else { return };
    let Ok(Some(own)) = open.locked(|_, state| state.lock_identity()) else { return };
    let first = placeholder::aside();
    for other in descriptors.iter().filter(|other| **other >= first) {
        // SAFETY: plain numbers.
        let position = || unsafe { next::lseek64(*other, 0, libc::SEEK_CUR) };
        if placeholder::identity(*other) == Some(own) && position() == mark {
            open.locks.store(*other, Release);
        }
    }
}

/// Closes the descriptors that keep a container without a name and that this program has inherited
/// without having the container open: the previous program in this process was the last that could
/// close them. Containers in `unknown` are open, so their descriptors stay.
pub(super) fn end_unclaimed(descriptors: &[c_int], unknown: &[(u64, u64)]) {
    let first = placeholder::aside();
    for fd in descriptors.iter().copied().filter(|fd| *fd >= first) {
        let Ok(link) = std::fs::read_link(format!("/proc/self/fd/{fd}")) else { continue };
        let Some(directory) = link.parent().filter(|_| link.ends_with("order")) else { continue };
        let is_claimed = || table::all().any(|(_, open)| open.locks.load(Acquire) == fd);
        let is_removed = directory.file_name().is_some_and(blob::is_removed);
        if !is_removed || is_claimed() || unknown.contains(&table::identity_of(directory)) {
            continue;
        }
        let close = || {
            // SAFETY: the descriptor is nobody else's.
            unsafe { next::close(fd) };
        };
        if let Err(error) = blob::end_inherited(directory, close) {
            agg_core::log!(Level::Error, "{}: not removed: {error}", directory.display());
        }
    }
}

/// In a child that shares the memory of this program: a child that inherits the descriptor `new` of
/// a container also inherits the descriptor that holds the locks and keeps the parts. The table
/// belongs to the parent; only descriptors of the child change.
pub(super) fn lend(fd: c_int, new: c_int) {
    let _errno = errno::Keep::new();
    // SAFETY: plain numbers.
    let is_inherited = |fd| unsafe { next::fcntl(fd, libc::F_GETFD, 0) } == 0;
    let Some(open) = table::get(fd).filter(|_| is_inherited(new)) else { return };
    let known = open.locks.load(Acquire);
    let locks = if known >= 0 { Ok(known) } else { marked(new, open, false) };
    if let Ok(locks) = locks {
        // SAFETY: plain numbers.
        unsafe { next::fcntl(locks, libc::F_SETFD, 0) };
    }
}

/// For a descriptor that a child will get by another number: the descriptor that it is to inherit
/// besides.
pub fn to_inherit(fd: c_int) -> Option<c_int> {
    prepare(fd);
    let locks = table::get(fd)?.locks.load(Acquire);
    (locks >= 0).then_some(locks)
}

/// After close-on-exec of many descriptors changed.
pub fn inherit_all() {
    for (_, open) in table::all() {
        let locks = open.locks.load(Acquire);
        if locks >= 0 {
            pass_on(open, locks);
        }
    }
}

/// When a descriptor of a container is closed in this process: as with every file, all locks of the
/// process on it end; with the `last` one of an open file those of the open file, too.
pub(super) fn closed(open: &OpenContainer, last: bool) {
    let _errno = errno::Keep::new();
    // A signal handler that interrupted such a call leaves the locks until the process ends.
    let _ = own(|files| {
        if let Some(at) = files.iter().position(|(identity, _)| *identity == open.identity) {
            let (_, file) = files.swap_remove(at);
            let mut all = description(libc::F_UNLCK);
            all.l_start = LOCKS_FROM;
            // SAFETY: the command takes a lock; the descriptor is ours.
            unsafe {
                next::fcntl(file, libc::F_OFD_SETLK, &raw mut all as usize);
                next::close(file);
            }
        }
        Ok(())
    });
    if last {
        let_go(open);
    }
}

/// Releases the locks of an open file that this process holds, and with them the parts of the
/// container that they keep.
fn let_go(open: &OpenContainer) {
    let locks = open.locks.swap(-1, AcqRel);
    if locks >= 0 {
        // SAFETY: the descriptor is ours.
        unsafe { next::close(locks) };
    }
}

/// At the end of the process, before it lets its containers go: their locks keep them.
pub(super) fn at_exit(opens: impl Iterator<Item = &'static OpenContainer>) {
    let _errno = errno::Keep::new();
    // A lock that is held by an interrupted call ends with the process.
    let _ = own(|files| {
        for (_, file) in files.drain(..) {
            // SAFETY: the descriptor is ours.
            unsafe { next::close(file) };
        }
        Ok(())
    });
    opens.for_each(let_go);
}

/// In a child after `fork`: locks of the parent's process are not the child's.
pub(super) fn in_child() {
    // SAFETY: a child has one thread; the descriptors are ours; the parent's own keep the locks.
    unsafe {
        process().locks.in_child(|files, _| {
            for (_, file) in files.drain(..) {
                next::close(file);
            }
        });
    }
}

/// `flock`.
pub(super) fn flock(
    open: &'static OpenContainer,
    fd: c_int,
    operation: c_int,
) -> Result<c_int, c_int> {
    write_buffer::store_of(open);
    let locks = of_description(fd, open, true)?;
    // SAFETY: plain numbers.
    Ok(unsafe { next::flock(locks, operation) })
}

/// A lock of a kind on everything from the first byte on.
fn description(kind: c_int) -> libc::flock64 {
    // SAFETY: all-zero bytes are a lock, which is plain numbers.
    let mut lock: libc::flock64 = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (kind as i16, libc::SEEK_SET as i16);
    lock
}

/// The commands of `fcntl` for locks, and those that do the same for a description.
fn for_description(command: c_int) -> Option<(c_int, bool)> {
    match command {
        libc::F_GETLK => Some((libc::F_OFD_GETLK, true)),
        libc::F_SETLK => Some((libc::F_OFD_SETLK, true)),
        libc::F_SETLKW => Some((libc::F_OFD_SETLKW, true)),
        libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => Some((command, false)),
        _ => None,
    }
}

/// The place that a lock begins at, in the file.
fn start(open: &OpenContainer, fd: c_int, lock: &libc::flock64) -> Result<off64_t, c_int> {
    let base = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        // SAFETY: plain numbers.
        libc::SEEK_CUR => unsafe { next::lseek64(fd, 0, libc::SEEK_CUR) },
        libc::SEEK_END => open.size()? as off64_t,
        _ => return Err(libc::EINVAL),
    };
    let start = base.checked_add(lock.l_start).ok_or(libc::EOVERFLOW)?;
    let first =
        if lock.l_len < 0 { start.checked_add(lock.l_len).ok_or(libc::EINVAL)? } else { start };
    if first < 0 { Err(libc::EINVAL) } else { Ok(first) }
}

/// `fcntl` with a command for locks; `None` with another one.
///
/// # Safety
/// `lock` points to a lock.
pub(super) unsafe fn control(
    open: &'static OpenContainer,
    fd: c_int,
    command: c_int,
    lock: *mut libc::flock64,
) -> Option<Result<c_int, c_int>> {
    let (command, of_process) = for_description(command)?;
    // SAFETY: the caller's promise.
    let lock = unsafe { &mut *lock };
    Some(change(open, fd, command, of_process, lock))
}

fn change(
    open: &'static OpenContainer,
    fd: c_int,
    command: c_int,
    process: bool,
    lock: &mut libc::flock64,
) -> Result<c_int, c_int> {
    if state::is_guest() {
        return Err(libc::ENOLCK);
    }
    if command != libc::F_OFD_GETLK {
        match c_int::from(lock.l_type) {
            libc::F_RDLCK => open.may_read()?,
            libc::F_WRLCK => open.may_write()?,
            _ => {}
        }
    } else if !process && lock.l_pid != 0 {
        return Err(libc::EINVAL);
    }
    write_buffer::store_of(open);
    let first = start(open, fd, lock)?;
    let mut meant = description(c_int::from(lock.l_type));
    meant.l_start = first.checked_add(LOCKS_FROM).ok_or(libc::EOVERFLOW)?;
    meant.l_len = lock.l_len.checked_abs().ok_or(libc::EINVAL)?;
    let file = if process { of_process(open)? } else { of_description(fd, open, true)? };
    // SAFETY: the command takes a lock.
    let done = unsafe { next::fcntl(file, command, &raw mut meant as usize) };
    if done == 0 && command == libc::F_OFD_GETLK {
        if c_int::from(meant.l_type) == libc::F_UNLCK {
            lock.l_type = libc::F_UNLCK as i16;
        } else {
            *lock = meant;
            lock.l_start -= LOCKS_FROM;
        }
    }
    Ok(done)
}

/// `lockf`.
pub(super) fn lockf(
    open: &'static OpenContainer,
    fd: c_int,
    command: c_int,
    len: off64_t,
) -> Result<c_int, c_int> {
    let kind = if command == libc::F_ULOCK { libc::F_UNLCK } else { libc::F_WRLCK };
    let mut lock = description(kind);
    (lock.l_whence, lock.l_len) = (libc::SEEK_CUR as i16, len);
    let how = match command {
        libc::F_ULOCK | libc::F_TLOCK => libc::F_OFD_SETLK,
        libc::F_LOCK => libc::F_OFD_SETLKW,
        libc::F_TEST => libc::F_OFD_GETLK,
        _ => return Err(libc::EINVAL),
    };
    match change(open, fd, how, true, &mut lock)? {
        0 if command == libc::F_TEST && c_int::from(lock.l_type) != libc::F_UNLCK => {
            Err(libc::EACCES)
        }
        done => Ok(done),
    }
}

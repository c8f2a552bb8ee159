//! Child processes, other programs in this process, and its end.

use super::counts::Counts;
use super::files::{self, Description, File};
use super::host::{host, process};
use super::next;
use super::reason::Reason;
use super::{containers, coupled, descriptors, flush, report, settle, spool, state};
use libc::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// Before `fork`: the child shares positions with the parent, so both are the kernel's from now on.
pub extern "C" fn before_fork() {
    if !state::active() {
        return;
    }
    state::note_child();
    coupled::before_fork();
    containers::before_child();
    containers::store_kept(|_| true);
    let Some(registry) = files::hold_registry() else { return };
    process().holding.store(true, Relaxed);
    for file in &registry.files {
        let Some(guard) = file.lock() else { continue };
        // SAFETY: the lock is held.
        let held = unsafe { file.held() };
        flush::make_native(file, held, Reason::Fork);
        // The lock is given back on both sides.
        std::mem::forget(guard);
    }
}

/// After `fork`, in the parent.
pub extern "C" fn after_fork() {
    if state::active() {
        coupled::in_parent();
    }
    release_after_fork();
}

/// On both sides: releases the locks that were held across the `fork`.
fn release_after_fork() {
    if state::active() {
        coupled::after_fork();
    }
    if !state::active() || !process().holding.swap(false, Relaxed) {
        return;
    }
    files::with_held_registry(|registry| {
        registry.files.iter().for_each(|file| files::release(file))
    });
    files::release_registry();
}

/// After `fork`, in the child: the spool is the parent's.
pub extern "C" fn in_child() {
    if state::active() {
        if process().holding.load(Relaxed) {
            files::with_held_registry(|registry| {
                registry.files.iter().for_each(|file| leave(file))
            });
        }
        release_after_fork();
        state::forget_owner();
        spool::disown();
        containers::in_child();
        state::forget_dirty();
        coupled::in_child();
    }
}

/// In the child: drops the dirty bytes and counts of a file, which the parent stores and reports.
fn leave(file: &'static File) {
    // SAFETY: the lock is held across the fork, and this is the only thread.
    let held = unsafe { file.held() };
    (held.buffer.slot, held.buffer.count, held.buffer.used, held.error) = (None, 0, 0, 0);
    (held.counts, held.told) = (Counts::new(), true);
    files::mark(file, held, false);
}

/// `fork`, which calls us before and after.
pub fn fork() -> libc::pid_t {
    // SAFETY: nothing is passed.
    let child = unsafe { next::fork() };
    if child > 0 {
        coupled::has_forked();
    }
    child
}

/// `_Fork`, which calls nobody.
pub fn bare_fork() -> libc::pid_t {
    before_fork();
    // SAFETY: nothing is passed.
    let child = unsafe { next::_Fork() };
    if child == 0 {
        in_child()
    } else {
        after_fork();
        if child > 0 {
            coupled::has_forked();
        }
    }
    child
}

/// Before `vfork` and `clone`: a child that shares memory, but not descriptors.
pub extern "C" fn before_vfork() {
    if state::active() && !state::is_guest() {
        state::note_child();
        coupled::complete_inherited();
        containers::before_child();
        state::own_table();
        settle::each(|file, held| flush::make_native(file, held, Reason::Vfork));
    }
}

/// Before another program starts, in this process or in a child that does not run ours: stores all
/// bytes, and leaves the files that it inherits to the kernel.
pub fn before_program(reason: Reason) {
    if state::is_guest() {
        return;
    }
    state::note_child();
    coupled::complete_inherited();
    containers::before_child();
    settle::all();
    for (fd, _) in descriptors::each::<Description>() {
        // SAFETY: plain numbers.
        let flags = unsafe { next::fcntl(fd, libc::F_GETFD, 0) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            flush::demote(fd, reason);
        }
    }
}

/// Before `exec`: this process becomes another program, if it can.
pub extern "C" fn before_exec() {
    if state::active() && !state::is_guest() {
        coupled::complete_inherited();
        settle::each(|file, held| {
            // A child that has not used an inherited file has nothing to report.
            let is_news = held.is_news();
            flush::make_native(file, held, Reason::Inherited);
            if is_news {
                report::tell_news(held);
            }
        });
        containers::settle_all();
        if !state::any_dirty() {
            spool::remove();
        }
    }
}

/// `posix_spawn_file_actions_adddup2`: also passes on the descriptor that keeps a container.
///
/// # Safety
/// As the C library demands.
pub unsafe fn add_duplicate(actions: *mut c_void, fd: c_int, new: c_int) -> c_int {
    if state::active()
        && let Some(kept) = containers::to_inherit(fd)
    {
        // SAFETY: the caller's promise; of a descriptor and itself it takes close-on-exec away.
        let added = unsafe { next::posix_spawn_file_actions_adddup2(actions, kept, kept) };
        if added != 0 {
            return added;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { next::posix_spawn_file_actions_adddup2(actions, fd, new) }
}

/// `abort`: as [`at_exit`], but first notifies readers of coupled files that this process died.
pub fn at_abort() {
    coupled::died();
    at_exit();
}

/// At the end of the process: all bytes are in the kernel, and nothing is kept back any more.
pub fn at_exit() {
    if state::is_guest() {
        return;
    }
    state::end();
    flush::each_at_the_end(finish);
    containers::at_exit();
    coupled::at_exit();
    tell_unused();
    if !state::any_dirty() {
        spool::remove();
    }
}

fn tell_unused() {
    let _inside = state::Inside::enter();
    (host().at_exit)();
}

fn finish(file: &'static File, held: &mut files::Held) {
    flush::drain_quietly(file, held);
    flush::sync_positions(file);
    if held.buffer.count > 0 {
        super::dirty::lose(file, held, held.error);
    }
    flush::give_back(held);
    report::tell_news(held);
}

/// `_exit` and `_Exit`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn exit_now(code: c_int) -> c_int {
    at_exit();
    // SAFETY: the caller's argument, passed on.
    unsafe { next::_exit(code) }
}

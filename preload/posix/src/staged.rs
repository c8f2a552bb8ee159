//! Files of which writes are staged (`AGGIO_STAGE`): what waits is in the file before the program
//! looks at it with system calls.

use super::host::process;
use super::state::{self, Inside};
use super::{config, errno};
use agg_core::log;
use agg_core::log::Level;
use agg_core::stage;
use libc::{c_char, c_int};
use std::fs::File;
use std::os::fd::FromRawFd;

/// Before the program opens a file: from now on nothing is staged, as long as MPI programs have
/// the file open.
///
/// # Errors
/// The number of the error if what is staged cannot be written.
pub fn before_open(at: c_int, path: *const c_char, flags: c_int) -> Result<(), c_int> {
    let without_bytes = libc::O_PATH | libc::O_DIRECTORY;
    let is_new = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    match flags & without_bytes != 0 || is_new {
        true => Ok(()),
        false => look(at, path, flags & libc::O_NOFOLLOW == 0, true),
    }
}

/// Before the program asks for facts, or cuts the file by its name: -1 with `errno` if what is
/// staged cannot be written, otherwise `None`.
pub fn before_facts(at: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    let failed = look(at, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0, false).err();
    failed.map(|number| errno::fail(number) as c_int)
}

fn look(at: c_int, path: *const c_char, follow: bool, stays: bool) -> Result<(), c_int> {
    if !state::has_stages() || Inside::is() || state::is_guest() {
        return Ok(());
    }
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    let Some(home) = stage::home_of(&config::get().settings.stage) else { return Ok(()) };
    let nofollow = if follow { 0 } else { libc::O_NOFOLLOW };
    // SAFETY: the program's name of a file, which the kernel checks.
    let fd = unsafe { libc::openat(at, path, libc::O_PATH | libc::O_CLOEXEC | nofollow) };
    if fd == -1 {
        return Ok(());
    }
    // SAFETY: the descriptor was opened here.
    let target = unsafe { File::from_raw_fd(fd) };
    if !target.metadata().is_ok_and(|facts| facts.is_file()) {
        return Ok(());
    }
    stage::show(&home, target, stays).map_err(|error| {
        log!(Level::Error, "what is staged of a file that the program looks at: {error}");
        error.number()
    })
}

/// The process has a directory of stages.
pub fn attach() {
    process().flags.staged.store(true, std::sync::atomic::Ordering::Relaxed);
}

//! Files with staged writes (`AGGIO_DEFER`, `AGGIO_STAGE`): staged bytes are written to the file
//! before the program accesses it with system calls.

use super::host::process;
use super::state::{self, Inside};
use super::{config, errno};
use agg_core::log;
use agg_core::log::Level;
use agg_core::stage::{self, Home, Losing};
use libc::{c_char, c_int};
use std::fs::File;
use std::os::fd::FromRawFd;

/// Before the program opens a file: writes its staged bytes, and stops staging as long as MPI
/// programs have the file open.
///
/// # Errors
/// The error number if staged bytes cannot be written.
pub fn before_open(at: c_int, path: *const c_char, flags: c_int) -> Result<(), c_int> {
    let without_bytes = libc::O_PATH | libc::O_DIRECTORY;
    let is_new = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    match flags & without_bytes != 0 || is_new {
        true => Ok(()),
        false => look(at, path, flags & libc::O_NOFOLLOW == 0, true),
    }
}

/// Before the program asks for attributes of a file, or truncates it by its name: -1 with `errno`
/// if staged bytes cannot be written, otherwise `None`.
pub fn before_facts(at: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    let failed = look(at, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0, false).err();
    failed.map(|number| errno::fail(number) as c_int)
}

/// Removes a name of a file by `act`, which returns 0 on success. Staged bytes of a file that can
/// no longer be opened are discarded.
pub fn losing(at: c_int, path: *const c_char, act: impl FnOnce() -> c_int) -> c_int {
    let losing = with_home(|home| Losing::of(home, seen(at, path, false)?)).flatten();
    let result = act();
    if result == 0
        && let Some(losing) = losing
    {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        losing.lost();
    }
    result
}

/// Calls `act` with the place of stages, if this call is the program's and there is one.
fn with_home<T>(act: impl FnOnce(&Home) -> T) -> Option<T> {
    if !state::has_stages() || Inside::is() || state::is_guest() {
        return None;
    }
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    stage::home_of(&config::get().settings.stage).map(|home| act(&home))
}

/// The ordinary file that the program means by a name.
fn seen(at: c_int, path: *const c_char, follow: bool) -> Option<File> {
    let nofollow = if follow { 0 } else { libc::O_NOFOLLOW };
    // SAFETY: the program's name of a file, which the kernel checks.
    let fd = unsafe { libc::openat(at, path, libc::O_PATH | libc::O_CLOEXEC | nofollow) };
    // SAFETY: the descriptor was opened here.
    let file = (fd != -1).then(|| unsafe { File::from_raw_fd(fd) })?;
    file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
}

fn look(at: c_int, path: *const c_char, follow: bool, stays: bool) -> Result<(), c_int> {
    let shown = with_home(|home| {
        let target = seen(at, path, follow)?;
        let failed = stage::show(home, target, stays).err()?;
        log!(Level::Error, "what is staged of a file that the program looks at: {failed}");
        Some(failed.number())
    });
    shown.flatten().map_or(Ok(()), Err)
}

/// The process has a place of stages.
pub fn attach() {
    process().flags.staged.store(true, std::sync::atomic::Ordering::Relaxed);
}

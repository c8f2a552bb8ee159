//! The spool: bytes that a program has written and that are not yet in their file.
//!
//! A process that buffers small writes keeps them in a mapped file of memory, which outlives it. A
//! killed process leaves that file behind; [`recover()`] puts the bytes where they belong.

mod change;
pub mod checks;
pub mod layout;
mod own;
mod reading;
mod recover;
pub mod stored;
mod version;

pub use change::{Change, Others};
pub(crate) use own::random;
pub use own::{Slot, Spool, Storing};
pub use recover::{Recovered, recover, recover_all};
pub(crate) use version::now;
pub use version::{Ask, Version};

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use aggio_config::settings::SPOOL as DIRECTORY;

/// The beginning of the names of all spool files of user `uid`.
pub fn prefix(uid: u32) -> String {
    format!("aggio-spool-{uid}-")
}

/// When process `pid` started, in clock ticks since boot; `None` if there is no such process, or if
/// it has ended and only its parent has not asked how.
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    let mut words = text.split(' ');
    let ended = matches!(words.next()?, "Z" | "X");
    words.nth(18)?.parse().ok().filter(|_| !ended)
}

/// When the file that `fd` is open on was made, in nanoseconds; 0 if its file system does not say.
pub fn born(fd: std::os::fd::RawFd) -> u64 {
    // SAFETY: all bits zero are a record; it outlives the call.
    unsafe {
        let mut facts: libc::statx = std::mem::zeroed();
        let flags = libc::AT_EMPTY_PATH;
        let known = libc::statx(fd, c"".as_ptr(), flags, libc::STATX_BTIME, &raw mut facts) == 0;
        if !known || facts.stx_mask & libc::STATX_BTIME == 0 {
            return 0;
        }
        let seconds = (facts.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000);
        seconds.wrapping_add(u64::from(facts.stx_btime.tv_nsec))
    }
}

/// Takes the lock that marks the owner as alive; returns whether it was free.
fn lock(file: &std::fs::File) -> bool {
    locked_by(file, libc::F_OFD_SETLK).is_ok()
}

/// Takes the lock on a new file; a process that looks for abandoned files may hold it for a moment.
///
/// # Errors
/// The error of the system call.
fn lock_new(file: &std::fs::File) -> std::io::Result<()> {
    locked_by(file, libc::F_OFD_SETLKW)
}

/// Locks the whole file.
fn locked_by(file: &std::fs::File, command: libc::c_int) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    aggio_base::os::ofd_lock(file.as_raw_fd(), command, libc::F_WRLCK, 0, 0)
}

/// The end of the name of a spool file that is being made.
const NEW: &str = ".new";

/// Whether `path` is a name for a spool file of user `uid`.
fn is_spool(path: &Path, uid: u32) -> bool {
    has_prefix(path, uid) && !is_new(path, uid)
}

/// Whether `path` is a name for a spool file of user `uid` that has no head yet.
fn is_new(path: &Path, uid: u32) -> bool {
    has_prefix(path, uid) && path.as_os_str().as_bytes().ends_with(NEW.as_bytes())
}

fn has_prefix(path: &Path, uid: u32) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix(uid).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_that_its_parent_has_not_looked_for_is_dead() {
        let mut child = crate::tests::start(std::process::Command::new("sleep").arg("60"));
        assert!(started(child.id()).is_some(), "it lives");
        child.kill().unwrap();
        // It ends some time after the signal; the wait would take its number away.
        let ended = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            started(child.id()).is_none()
        });
        assert!(ended && std::fs::exists(format!("/proc/{}", child.id())).unwrap());
        child.wait().unwrap();
        assert!(started(std::process::id()).is_some());
    }
}

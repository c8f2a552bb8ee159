//! The spool: bytes that a program has written and that are not yet in their file.
//!
//! A process that keeps small writes back keeps them in a mapped file of memory, which outlives it.
//! Whoever is killed leaves it behind; [`recover()`] puts the bytes where they belong.

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

/// Which boot of which machine this is; zeros where the system does not say.
pub(crate) fn boot() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(0);
    [(number >> 64) as u64, number as u64]
}

/// Files of which one has a number of the machine that no other has.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// A number made of this machine's name, and of the [number](MACHINE) that tells machines of one
/// name apart, if it has one.
pub(crate) fn host() -> u64 {
    // SAFETY: all bits zero are a record, which outlives the call.
    let names = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut names);
        names
    };
    let name = names.nodename.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
    let machine = MACHINE.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    host_of(&name.collect::<Vec<_>>(), machine.trim_ascii())
}

fn host_of(name: &[u8], machine: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    // No name has a zero byte.
    [name, machine].join(&0).iter().fold(0xcbf2_9ce4_8422_2325, mix)
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

/// Takes the lock that says that the owner lives; whether it was free.
fn lock(file: &std::fs::File) -> bool {
    locked_by(file, libc::F_OFD_SETLK)
}

/// Takes the lock on a new file, which somebody who looks for abandoned ones may hold for a moment;
/// whether it could.
fn lock_new(file: &std::fs::File) -> bool {
    let interrupted = || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
    while !locked_by(file, libc::F_OFD_SETLKW) {
        if !interrupted() {
            return false;
        }
    }
    true
}

fn locked_by(file: &std::fs::File, command: libc::c_int) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: all bits zero are a lock record.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: the descriptor is open and the record outlives the call.
    unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut record) == 0 }
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
    fn machines_of_one_name_are_told_apart() {
        let hosts = [host_of(b"node", b"01"), host_of(b"node", b"02"), host_of(b"node0", b"1")];
        assert!(hosts[0] != hosts[1] && hosts[0] != hosts[2] && hosts[1] != hosts[2]);
        assert_eq!(host(), host());
        let known = MACHINE.iter().find_map(|path| std::fs::read(path).ok());
        let name = std::fs::read("/proc/sys/kernel/hostname").unwrap();
        let wanted = host_of(name.trim_ascii(), known.unwrap_or_default().trim_ascii());
        assert_eq!(host(), wanted);
    }

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

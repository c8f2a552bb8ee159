//! Mounts of this file system by any process: finds them, tells dead ones from live ones, removes
//! them.

use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::io::{Error, Result};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The prefix of the source of a mount.
pub(crate) const SOURCE: &str = "aggio#";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub point: PathBuf,
    /// The directory that it shows.
    pub backend: PathBuf,
    /// Major and minor number of its device.
    pub device: String,
}

/// A field of the kernel's table: blanks and the like are written as octal numbers.
fn unescape(field: &str) -> PathBuf {
    let (bytes, mut plain) = (field.as_bytes(), Vec::new());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|_| byte == b'\\').and_then(|code| u8::from_str_radix(code, 8).ok());
        plain.push(code.unwrap_or(byte));
        at += if code.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn parse(table: &str) -> Vec<Mounted> {
    let line = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ');
        let device = left.nth(2)?.to_string();
        let point = unescape(left.nth(1)?);
        let mut right = right.split(' ');
        let kind = right.next()?;
        let source = unescape(right.next()?);
        let backend = source.to_str()?.strip_prefix(SOURCE)?;
        let is_ours = kind == "fuse" || kind.starts_with("fuse.");
        is_ours.then(|| Mounted { point, backend: backend.into(), device })
    };
    table.lines().filter_map(line).collect()
}

/// All mounts of this file system that this process can see.
///
/// # Errors
///
/// If the kernel's table cannot be read.
pub fn all() -> Result<Vec<Mounted>> {
    Ok(parse(&std::fs::read_to_string("/proc/self/mountinfo")?))
}

/// The path of a mount point without links, found without a request to the mounted file system.
///
/// # Errors
///
/// If the directory that it lies in is not there.
pub fn resolve(point: &Path) -> Result<PathBuf> {
    let point = std::path::absolute(point)?;
    match (point.parent(), point.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => Ok(point),
    }
}

/// The topmost mount at a resolved path.
///
/// # Errors
///
/// If the kernel's table cannot be read.
pub fn at(point: &Path) -> Result<Option<Mounted>> {
    Ok(all()?.into_iter().rev().find(|mounted| mounted.point == point))
}

/// Whether the process that served a mount is gone.
pub fn is_dead(point: &Path) -> bool {
    match rustix::fs::statvfs(point) {
        Err(rustix::io::Errno::NOTCONN) => true,
        Err(_) | Ok(_) => false,
    }
}

/// The process that serves a mount, as the mount reports it.
fn server(point: &Path) -> Option<u32> {
    let mut value = [0; 16];
    let size = rustix::fs::getxattr(point, "user.aggio.pid", &mut value[..]).ok()?;
    std::str::from_utf8(value.get(..size)?).ok()?.parse().ok()
}

/// Removes a mount. Waits until its process has ended, so that everything is in the backing
/// directory afterwards.
///
/// # Errors
///
/// If it is in use and not `lazy`, or not permitted, or its process is still there after
/// `patience`.
pub fn remove(point: &Path, lazy: bool, patience: Duration) -> Result<()> {
    let server = if is_dead(point) { None } else { server(point) };
    unmount(point, lazy)?;
    match server {
        Some(server) if !lazy => wait_for(server, patience),
        _ => Ok(()),
    }
}

/// Takes a mount away without waiting for anything.
///
/// # Errors
///
/// If it is in use and not `lazy`, or not permitted.
pub fn unmount(point: &Path, lazy: bool) -> Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => unmount_as_user(point, lazy),
        Err(error) => Err(error.into()),
    }
}

fn unmount_as_user(point: &Path, lazy: bool) -> Result<()> {
    let option = if lazy { "-uz" } else { "-u" };
    let output = Command::new("fusermount3").arg(option).arg("--").arg(point).output();
    let output = output.map_err(|why| Error::new(why.kind(), format!("fusermount3: {why}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::other(String::from_utf8_lossy(&output.stderr).trim().to_string()))
}

fn wait_for(process: u32, patience: Duration) -> Result<()> {
    let until = Instant::now() + patience;
    let name = PathBuf::from(format!("/proc/{process}/comm"));
    while std::fs::read_to_string(&name).is_ok_and(|name| name.starts_with("aggio")) {
        if is_zombie(process) {
            break;
        }
        if Instant::now() > until {
            let words = format!("unmounted, but process {process} has not ended yet");
            return Err(Error::new(std::io::ErrorKind::TimedOut, words));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn is_zombie(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read_with_blanks_in_names() {
        let table = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:35 / /a\\040b rw,nosuid - fuse aggio#/back\\040end ro,user_id=0
41 22 0:36 / /c rw - fuse.sshfs host:/x rw
42 22 0:37 / /d ro - fuse.aggio aggio#/e ro
";
        let found = parse(table);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].point, Path::new("/a b"));
        assert_eq!(found[0].backend, Path::new("/back end"));
        assert_eq!(found[0].device, "0:35");
        assert_eq!(found[1].point, Path::new("/d"));
    }
}

//! Arguments and results of opens of coupled files.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Options of an open of a coupled file.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// Its absolute name.
    pub path: &'a Path,
    /// Data may be read.
    pub read: bool,
    /// Data may be written.
    pub write: bool,
    /// Creates the file if it is missing.
    pub create: bool,
    /// Fails with `EEXIST` if the file exists.
    pub exclusive: bool,
    /// The file begins without bytes.
    pub truncate: bool,
    /// Each write goes to the end of the file.
    pub append: bool,
    /// Permission bits of a new file, after the umask.
    pub mode: u32,
    /// Waits for a file that is not there yet, instead of `EAGAIN`.
    pub blocking: bool,
    /// Not all bytes need to be there: a reader, by this descriptor or by one that another
    /// process makes of it, calls [`Client::fetch`](crate::Client::fetch) before.
    pub parts: bool,
}

impl<'a> Open<'a> {
    /// An open of `path` without any access, which waits.
    pub fn new(path: &'a Path) -> Self {
        Self {
            path,
            read: false,
            write: false,
            create: false,
            exclusive: false,
            truncate: false,
            append: false,
            mode: 0o666,
            blocking: true,
            parts: false,
        }
    }
}

/// An open coupled file.
#[derive(Debug)]
pub struct Opened {
    /// A description of the file of its own, with the access that was asked for and
    /// `O_CLOEXEC` set.
    pub fd: OwnedFd,
    /// The agent's number of this open.
    pub handle: u64,
    /// The number of the generation, from 1.
    pub generation: u64,
}

/// Attributes of a coupled file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The device that `fstat` tells of its descriptors.
    pub device: u64,
    /// The inode that `fstat` tells of its descriptors.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Stored units of 512 bytes.
    pub blocks: u64,
    /// Time of the last modification: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The number of the generation.
    pub generation: u64,
    /// The agent's number of its memory, if it is complete; otherwise 0.
    pub area: u64,
}

/// The payload of an error that says where the file is.
#[derive(Debug)]
struct OnDisk;

impl fmt::Display for OnDisk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the writer died, and on_writer_death=file: the file on disk is meant")
    }
}

impl std::error::Error for OnDisk {}

/// The error that sends a caller to the file on disk.
pub fn on_disk() -> io::Error {
    io::Error::other(OnDisk)
}

/// Whether the caller is to open the file on disk instead.
pub fn is_on_disk(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OnDisk>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_error_sends_the_caller_to_the_file_on_disk() {
        assert!(is_on_disk(&on_disk()));
        assert!(!is_on_disk(&io::Error::other("no")));
        assert!(!is_on_disk(&io::Error::from_raw_os_error(libc::ENOENT)));
    }
}

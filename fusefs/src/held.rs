//! Files that are held by descriptors: paths that lead to the very file, even if its name changes.

use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Result;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A name in a directory that is held.
pub(crate) struct Dentry<'a> {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) name: &'a OsStr,
}

impl Dentry<'_> {
    /// The path of the name.
    pub(crate) fn path(&self) -> PathBuf {
        child(&self.directory, self.name)
    }
}

/// The file of a descriptor that is no directory.
pub(crate) fn path(fd: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// The path of a name in the directory of a descriptor.
pub(crate) fn child(directory: &OwnedFd, name: &OsStr) -> PathBuf {
    path(directory).join(name)
}

/// The directory of a descriptor, for callers that follow no link at the end of a path.
pub(crate) fn directory(fd: &OwnedFd) -> PathBuf {
    path(fd).join(".")
}

/// The path of a file as users see it.
pub(crate) fn name(fd: &OwnedFd) -> String {
    std::fs::read_link(path(fd))
        .map_or_else(|_| "a removed file".into(), |path| path.display().to_string())
}

/// Opens a file. Only the access mode counts: the kernel above handles other flags.
pub(crate) fn reopen(fd: &OwnedFd, flags: i32) -> Result<File> {
    let access = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE;
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(path(fd), flags, Mode::empty())?))
}

/// Opens a directory, to read its entries or to sync it.
pub(crate) fn reopen_directory(fd: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(fd, ".", flags, Mode::empty())?)
}

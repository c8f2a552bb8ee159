//! Descriptors that one process of a node gives to the others.
//!
//! The opener publishes its descriptor and the identity of the file, and keeps the descriptor open
//! while others may take it; it need do nothing more. Another process takes a copy (`pidfd_getfd`),
//! or where the system forbids that, opens the file anew through `/proc/PID/fd`. Both work even if
//! the file has been renamed or removed. A copy shares the opener's open file description: nothing
//! here uses its offset, and locks take another one (see `try_lock_alone`).

use super::NodeAddress;
use aggio_base::os;
use aggio_base::{Error, ErrorClass, Result};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Which file it is, on one node: the numbers of its file system and in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the file system.
    pub device: u64,
    /// Number of the file in it.
    pub inode: u64,
}

/// A descriptor that its owner holds for the other processes of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where it is.
    pub address: NodeAddress,
    /// The file that it leads to.
    pub identity: Identity,
}

impl From<&libc::stat> for Identity {
    fn from(stat: &libc::stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl Identity {
    /// The identity of the file that `fd` leads to.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(fd: RawFd) -> io::Result<Self> {
        os::lasting_facts(fd).map(|stat| Self::from(&stat))
    }

    /// Rejects the descriptor of another file.
    ///
    /// # Errors
    /// `NoSuchFile` for another file; the system's error.
    pub fn check(self, found: io::Result<Self>) -> Result<()> {
        match found {
            Ok(found) if found == self => Ok(()),
            Ok(_) => {
                let text = "the file that was opened is not to be found any more";
                Err(Error::new(ErrorClass::NoSuchFile, text))
            }
            Err(error) => Err(Error::os("fstat", &error)),
        }
    }
}

/// A descriptor that was taken, and whether it is a copy.
#[derive(Debug)]
pub struct Taken {
    /// The descriptor.
    pub fd: OwnedFd,
    /// It shares the open file description of its owner.
    pub copied: bool,
}

impl Offer {
    /// Offers `descriptor`, which the caller holds for as long as others may ask for it.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(descriptor: RawFd) -> Result<Self> {
        let identity = Identity::of(descriptor).map_err(|e| Error::os("fstat", &e))?;
        Ok(Self::with(descriptor, identity))
    }

    /// The same for a descriptor that leads to the file `identity`.
    pub fn with(descriptor: RawFd, identity: Identity) -> Self {
        let process = i32::try_from(std::process::id()).unwrap_or(-1);
        Self { address: NodeAddress { process, descriptor }, identity }
    }

    /// Takes the file with at least the access wanted; `access` is an `O_` constant.
    ///
    /// # Errors
    /// Why neither way led to it.
    pub fn take(self, access: i32) -> Result<Taken> {
        self.copy(access).or_else(|first| {
            // Out of descriptors: the other way needs one too.
            if matches!(first.errno(), libc::EMFILE | libc::ENFILE) {
                return Err(first);
            }
            self.open(access)
        })
    }

    fn copy(self, access: i32) -> Result<Taken> {
        let NodeAddress { process, descriptor } = self.address;
        let fd = os::copy_descriptor(process, descriptor)
            .map_err(|error| Error::os("pidfd_getfd", &error))?;
        self.identity.check(Identity::of(fd.as_raw_fd()))?;
        let found = os::access_mode(fd.as_raw_fd()).map_err(|error| Error::os("fcntl", &error))?;
        if found != access && found != libc::O_RDWR {
            return Err(Error::new(ErrorClass::Access, "the descriptor allows too little"));
        }
        Ok(Taken { fd, copied: true })
    }

    fn open(self, access: i32) -> Result<Taken> {
        let NodeAddress { process, descriptor } = self.address;
        let fail = |error: io::Error| Error::os("open of another process' descriptor", &error);
        let path = CString::new(format!("/proc/{process}/fd/{descriptor}"));
        let path = path.map_err(|error| fail(error.into()))?;
        let fd = os::open(&path, access | libc::O_CLOEXEC | libc::O_NOCTTY, 0).map_err(fail)?;
        // SAFETY: the descriptor is new and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        self.identity.check(Identity::of(fd.as_raw_fd()))?;
        Ok(Taken { fd, copied: false })
    }
}

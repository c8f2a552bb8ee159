//! What a program calls to open, publish and look at coupled files.

mod types;

use aggio_base::Extent;
use aggio_config::settings::Settings;
use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

pub use types::{Open, Opened, Stat, is_on_disk, on_disk};

/// A connection to the agent; copies are the same connection.
///
/// A child of a fork that uses it connects anew. Descriptors that it inherited stay valid, and a
/// generation is not complete while one of them is open for writing.
#[derive(Clone, Debug)]
pub struct Client {}

impl Client {
    /// Connects to the agent of this user, and starts one if there is none.
    ///
    /// # Errors
    /// The directory of `AGGIO_COUPLE_DIR` is not the user's alone, or no agent can be started.
    pub fn connect(settings: &Settings) -> io::Result<Self> {
        let _ = settings;
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this version has no agent for AGGIO_COUPLE",
        ))
    }

    /// Opens a generation of a coupled file. A reader waits until there is one for it, unless
    /// `how.blocking` is false: then it gets `EAGAIN`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, ... where a file on disk would give them; `EIO` if the writer died;
    /// `ESTALE` if the generation is gone; an error for which [`is_on_disk`] holds if the caller
    /// is to open the file on disk; the agent cannot be reached.
    pub fn open(&self, how: &Open<'_>) -> io::Result<Opened> {
        let _ = how;
        unavailable()
    }

    /// Announces that this process holds `fd`, a descriptor of a coupled file that another process
    /// opened and passed on. Returns its handle.
    ///
    /// # Errors
    /// `ENOENT` if the descriptor is of no coupled file; the agent cannot be reached.
    pub fn adopt(&self, fd: RawFd) -> io::Result<u64> {
        let _ = fd;
        unavailable()
    }

    /// Says that the process has closed what `handle` stands for, after the descriptor itself.
    /// `moved` bytes were delivered to the program.
    ///
    /// # Errors
    /// The agent cannot be reached; an error of the generation that nobody has been told.
    pub fn close(&self, handle: u64, moved: u64) -> io::Result<()> {
        let _ = (handle, moved);
        unavailable()
    }

    /// Says that all bytes written so far may be read, for `ready=sync`.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn sync(&self, handle: u64) -> io::Result<()> {
        let _ = handle;
        unavailable()
    }

    /// Tells all ranges that were written since the open of a recycled file.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn extents(&self, handle: u64, written: &[Extent]) -> io::Result<()> {
        let _ = (handle, written);
        unavailable()
    }

    /// Sets the size of the file of this name, as `truncate`.
    ///
    /// # Errors
    /// `ENOENT`, `EFBIG`, ... as `truncate`; the agent cannot be reached.
    pub fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let _ = (path, len);
        unavailable()
    }

    /// Says that an open file is to be cut to no bytes. If that begins a new generation, returns
    /// what takes the place of the descriptor; if not, the caller truncates its own.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn set_size_zero(&self, handle: u64) -> io::Result<Option<Opened>> {
        let _ = handle;
        unavailable()
    }

    /// Removes a name, as `unlink`.
    ///
    /// # Errors
    /// `ENOENT`; the agent cannot be reached.
    pub fn unlink(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        unavailable()
    }

    /// Renames a coupled file, as `rename`. Either name may be one that no rule matches; the file
    /// of an uncoupled `from` becomes a complete generation of `to`.
    ///
    /// # Errors
    /// As `rename`; the agent cannot be reached.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        unavailable()
    }

    /// What this program would find under the name; `None` if nothing.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let _ = path;
        unavailable()
    }

    /// Names of the coupled files in the directory `dir` that this program would find there.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let _ = dir;
        unavailable()
    }

    /// Gets the bytes of a range to this node; does nothing if all are here.
    ///
    /// # Errors
    /// Another node cannot be reached.
    pub fn ensure(&self, handle: u64, range: Extent) -> io::Result<()> {
        let _ = (handle, range);
        unavailable()
    }

    /// Says that this process ends in order: what it has open for writing is complete.
    pub fn goodbye(&self) {}
}

fn unavailable<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this version has no agent for AGGIO_COUPLE"))
}

//! Records of netCDF files that are read while they are written (`ready=step`).

use super::{Client, failure};
use crate::protocol::{Before, Reply, Request};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Client {
    /// Says that the number of records of an open netCDF file was written, for `ready=step`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn announce(&self, handle: u64, before: Before) -> io::Result<()> {
        self.order(&Request::Announce(handle, before))
    }

    /// Whether the rule of a name lets readers have records of a file that is being written: then
    /// [`announce`](Self::announce) is to be called after each write to the number of records, and
    /// [`records`](Self::records) before each read of it.
    pub fn is_step(&self, path: &Path) -> bool {
        self.options(path.as_os_str().as_bytes()).is_some_and(|options| options.at_step)
    }

    /// Returns the number of records of an open file that may be read, and the width of that number
    /// in the file in bytes; `None` if all of the file may be read. Readers must see this number
    /// instead of the one in the file. Waits, if the rule says so, until there are at least `told`
    /// records, one more than this open was told last.
    ///
    /// # Errors
    /// `EIO` if the writer died, or has changed the header; `EINTR` as [`open`](Self::open); the
    /// agent cannot be reached.
    pub fn records(&self, handle: u64, told: u64) -> io::Result<Option<(u64, usize)>> {
        let request = Request::Records(handle, told);
        match self.connections.call(&request)?.0 {
            Reply::Records(found) => Ok(found.map(|(count, width)| (count, width as usize))),
            other => Err(failure(other, &request)),
        }
    }

    /// Fetches the bytes before `end` of an open file to this node, as far as readers may have
    /// them: a process on another node may know records that this node lacks. Returns the end of
    /// the bytes that are here and no longer change.
    ///
    /// # Errors
    /// As [`records`](Self::records); does not wait for other programs.
    pub fn reach(&self, handle: u64, end: u64) -> io::Result<u64> {
        let request = Request::Reach(handle, end);
        match self.connections.call(&request)?.0 {
            Reply::Until(end) => Ok(end),
            // Programs write it on this node, or are done with it.
            Reply::Records(_) | Reply::Whole => Ok(u64::MAX),
            other => Err(failure(other, &request)),
        }
    }
}

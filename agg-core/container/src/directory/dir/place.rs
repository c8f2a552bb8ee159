//! The current path of a directory, even if it was renamed, and its removal.

use crate::directory::dir::Dir;
use crate::directory::system::{open_at, stat_at};
use crate::errors::failed;
use aggio_base::Result;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// How often a name is looked up that another process changes meanwhile.
const ATTEMPTS: usize = 8;

impl Dir {
    /// The directory above and the name there, if a name leads to it still.
    fn place(&self) -> Option<(File, CString)> {
        let own = self.file.metadata().ok()?;
        for _ in 0..ATTEMPTS {
            let now = self.path_now();
            let name = CString::new(now.file_name()?.as_bytes()).ok()?;
            let above = open_at(self.fd(), c"..", libc::O_PATH | libc::O_DIRECTORY, 0).ok()?;
            let found = stat_at(&above, &name);
            if found.is_ok_and(|found| (found.st_dev, found.st_ino) == (own.dev(), own.ino())) {
                return Some((above, name));
            }
            if self.path_now() == now {
                return None;
            }
            // Somebody has renamed it meanwhile.
        }
        None
    }

    /// The current path, as the system reports it.
    pub(crate) fn told_path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd())).ok()
    }

    /// The current path; the last known one if the system does not report it.
    pub(crate) fn path_now(&self) -> PathBuf {
        self.told_path().unwrap_or_else(|| self.path.clone())
    }

    /// Removes this directory, which is empty, under its current name. Another directory of that
    /// name stays.
    pub(crate) fn remove_self(&self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let Some((above, name)) = self.place() else { return Ok(()) };
            // SAFETY: the name ends with a zero byte.
            if unsafe { libc::unlinkat(above.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) } == 0
            {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::NotFound {
                return if self.has_name() {
                    Err(failed("rmdir", &error, &self.path))
                } else {
                    Ok(())
                };
            }
        }
        Err(failed("rmdir", &io::Error::from_raw_os_error(libc::EBUSY), &self.path))
    }

    /// Whether it can be reached by a name still.
    pub(crate) fn has_name(&self) -> bool {
        self.place().is_some()
    }
}

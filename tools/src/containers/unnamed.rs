//! Files that get their names when they are complete.

use super::at;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file without its name, under a hidden one where the file system has no nameless files: removed unless it gets it.
pub(super) struct Unnamed {
    pub(super) file: File,
    hidden: Option<PathBuf>,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // After success there is none, after a failure that is the one that counts.
            let _ = std::fs::remove_file(hidden);
        }
    }
}

impl Unnamed {
    /// A file in the directory of `to`.
    pub(super) fn beside(to: &Path, mode: u32) -> Result<Self, String> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(folder_of(to), flags, Mode::from_raw_mode(mode)) {
            return Ok(Unnamed { file: File::from(file), hidden: None });
        }
        let path = Self::hidden_name(to)?;
        let mut how = OpenOptions::new();
        how.read(true).write(true).create_new(true).mode(mode);
        let file = how.open(&path).map_err(|why| at(&path, why))?;
        Ok(Unnamed { file, hidden: Some(path) })
    }

    fn hidden_name(to: &Path) -> Result<PathBuf, String> {
        let name = to.file_name().ok_or_else(|| at(to, "not the name of a file"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".aggio-{}", std::process::id()));
        Ok(to.with_file_name(hidden))
    }

    fn link(&self, to: &Path) -> rustix::io::Result<()> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, path, CWD, to, AtFlags::SYMLINK_FOLLOW)
    }

    /// Gives the file its name: `EEXIST` if somebody has that and must not be replaced.
    pub(super) fn name(mut self, to: &Path, replace: bool) -> Result<(), String> {
        let told = |why: rustix::io::Errno| match why {
            rustix::io::Errno::EXIST => at(to, THERE),
            why => at(to, std::io::Error::from(why)),
        };
        let hidden = match self.hidden.clone() {
            None if !replace => return self.link(to).map_err(told),
            Some(hidden) => hidden,
            None => {
                let hidden = Self::hidden_name(to)?;
                self.link(&hidden).map_err(told)?;
                self.hidden.insert(hidden).clone()
            }
        };
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, &hidden, CWD, to, flags) {
            // File systems that cannot promise it: it was looked for before.
            Err(rustix::io::Errno::INVAL) if !replace => {
                std::fs::rename(&hidden, to).map_err(|why| at(to, why))
            }
            result => result.map_err(told),
        }
    }
}

/// What is wrong if a file has the name already.
pub(super) const THERE: &str = "there already (--force replaces it)";

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Stores the name of a file.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), String> {
    let folder = folder_of(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|why| at(folder, why))
}

//! Opening a container: by its name, or from a rank of the node that has it open.

use super::super::{Driver, OpenHow, facts, latency, os};
use super::{BlobFile, Containers};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::pattern::absolute;
use aggio_comm::transport::Offer;
use aggio_config::settings::working_directory;
use aggio_container::blob::{self, Container};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, OnceLock, RwLock};

impl Containers {
    /// The open `container` as a file; `None` if a set has been made of it just now, or its name
    /// leads elsewhere, where containers become sets.
    pub(super) fn file(
        &self,
        container: Container,
        how: &OpenHow,
    ) -> Result<Option<Box<dyn Driver>>> {
        if !container.was_made_here() {
            may(&container, how)?;
        }
        let remakes = self.remakes(&how.path);
        let presence = if remakes { container.stay()? } else { None };
        if presence.is_none() && remakes {
            return Ok(None);
        }
        if let (true, Some(terms), Some(place)) = (remakes, &how.staging, self.stage.get())
            && terms.local
        {
            container.stage_logs(place, terms.each);
        }
        let hold = container.hold().map_err(|error| error.with_path(&how.path))?;
        let directory = container.directory().as_raw_fd();
        let device = os::fstat(directory).map_or(0, |stat| stat.st_dev);
        let name = || file_system(directory);
        // The program may be in another directory when a rule is looked for again.
        let how = OpenHow { path: absolute(&how.path, working_directory), ..how.clone() };
        Ok(Some(Box::new(BlobFile {
            meter: self.meters.of(device, latency::Path::Container, name),
            container,
            file_system: OnceLock::new(),
            hold: Mutex::new(hold),
            presence: Mutex::new(presence),
            rules: self.rules.clone(),
            how,
            reader: RwLock::default(),
            writer: RwLock::default(),
            syncs: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            followed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            locks: OnceLock::new(),
        })))
    }

    /// The container that another rank offers, even if its name leads to something else by now.
    pub(super) fn taken(&self, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        let directory = offer.take(libc::O_RDONLY)?.fd;
        let container = Container::of_directory(directory, Path::new(&how.path))?;
        // Where it becomes a set it does so under its name, which it has lost.
        let lost = || Error::new(ErrorClass::NoSuchFile, "the container has lost its name");
        self.file(container, how)?.ok_or_else(lost)
    }
}

/// The target of `path` if it is a symbolic link, else the path itself.
pub(super) fn behind_link(path: &str) -> PathBuf {
    let path = Path::new(path);
    let is_link = path.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
    is_link.then(|| path.canonicalize().ok()).flatten().unwrap_or_else(|| path.to_path_buf())
}

/// Rejects access that the permissions of the logical file, stored with its manifest, do not allow.
fn may(container: &Container, how: &OpenHow) -> Result<()> {
    let mode = if how.read { libc::R_OK } else { 0 } | if how.write { libc::W_OK } else { 0 };
    let directory = container.directory().as_raw_fd();
    let manifest = Path::new("/proc/self/fd").join(directory.to_string()).join(blob::MANIFEST);
    os::may_access(&manifest, mode).map_err(|error| Error::os("open", &error).with_path(&how.path))
}

/// The name of the file system that the directory of a container is on.
pub(super) fn file_system(directory: RawFd) -> String {
    facts::name_of(facts::magic(directory).unwrap_or(0))
}

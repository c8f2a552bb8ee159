//! Files that lose their last name: they cannot be opened any more, so their staged bytes are
//! useless.

use super::control::{Control, Fit, Identity};
use super::home::Files;
use super::locks::Locks;
use super::{Home, Level};
use aggio_base::{Error, Result, log};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An ordinary file that is about to lose a name.
#[derive(Debug)]
pub struct Losing {
    home: Home,
    file: File,
}

impl Losing {
    /// The file that `file` has open, if anything may be staged of it and it has one name.
    pub fn of(home: &Home, file: File) -> Option<Self> {
        let facts = file.metadata().ok()?;
        let may_end = facts.is_file() && facts.nlink() == 1;
        // A stage in memory ends with the processes that have the file open.
        let has_stage =
            || home.survives() && Identity::of(&file).is_ok_and(|one| home.has(&home.place(&one)));
        (may_end && has_stage()).then(|| Self { home: home.clone(), file })
    }

    /// The same for the file called `path`, which is no link.
    pub fn named(home: &Home, path: &Path) -> Option<Self> {
        let mut how = File::options();
        how.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
        Self::of(home, how.open(path).ok()?)
    }

    /// Call after it has lost the name: if that was the last one, removes its stage, unless a
    /// process has the file open and removes it in the end.
    pub fn lost(self) {
        if let Err(error) = self.remove_stage() {
            log!(Level::Warn, "the stage of a deleted file is not removed: {error}");
        }
    }

    fn remove_stage(&self) -> Result<()> {
        let facts = self.file.metadata().map_err(|error| Error::os("fstat", &error))?;
        let place = self.home.place(&Identity::of(&self.file)?);
        let found = if facts.nlink() == 0 { self.home.open(&place)? } else { None };
        let Some(Files { head, .. }) = found else { return Ok(()) };
        let locks = Locks::new(head);
        let is_unused = locks.be_alone().map_err(|error| Error::os("fcntl", &error))?;
        if is_unused && place.is_of(locks.file()) {
            let fit = Control::open(locks.file())?.fit(&self.file)?;
            if matches!(fit, Fit::Fits | Fit::Changed) {
                self.home.end(&place, locks.file());
            }
        }
        Ok(())
    }
}

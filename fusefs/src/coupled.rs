//! Files that programs exchange in memory: each is shown as its newest generation, to programs
//! that are no readers of it.

use crate::attributes;
use crate::files::{Opened, writes};
use crate::handles::Open;
use crate::tree::{Identity, Kind, Seen, mix};
use crate::view::{Shown, View};
use aggio_couple::{Viewed, Viewer};
use fuser::FopenFlags;
use rustix::fs::Stat;
use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The name of a directory as programs see it: agents identify files by their names.
fn name_of(directory: &OwnedFd) -> Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// The generation that is to be seen under a name.
fn look(viewer: &Viewer, directory: &OwnedFd, name: &OsStr) -> Result<Option<(Viewed, Stat)>> {
    let Some(viewed) = viewer.open(name_of(directory)?.join(name))? else { return Ok(None) };
    let stat = rustix::fs::fstat(&viewed.file)?;
    Ok(Some((viewed, stat)))
}

/// The coupled file of a name, if there is one.
pub(crate) fn see(viewer: &Viewer, directory: &OwnedFd, name: &OsStr) -> Result<Option<Seen>> {
    let Some((_, stat)) = look(viewer, directory, name)? else { return Ok(None) };
    // A descriptor of the generation would keep its memory: the directory stands for it.
    let fd = Arc::new(directory.try_clone()?);
    Ok(Some(Seen { fd, stat, kind: Kind::Coupled, first: None }))
}

/// Names of the coupled files in a directory.
pub(crate) fn list(viewer: &Viewer, directory: &OwnedFd) -> Result<Vec<OsString>> {
    viewer.list(&name_of(directory)?)
}

/// The number that a generation wants.
pub(crate) fn wanted(stat: &Stat) -> u64 {
    mix(mix(stat.st_ino) ^ stat.st_dev) >> 3 | 1 << 60
}

impl Shown {
    /// The kernel must not cache a generation: another one may come at any time.
    pub(crate) fn generation(stat: &Stat, id: u64) -> Self {
        let attributes = attributes::of_plain(stat, id);
        // Memory has no name of its own.
        Shown { attributes: fuser::FileAttr { nlink: 1, ..attributes }, ttl: Duration::ZERO }
    }
}

impl View {
    /// The generation of this number, if its file is still that.
    pub(crate) fn generation(&self, id: u64) -> Result<(Viewed, Stat)> {
        let stale = || rustix::io::Errno::STALE.into();
        let viewer = self.options.coupled.as_ref().ok_or_else(stale)?;
        let (directory, name) = self.tree.place(id)?;
        let found = look(viewer, &directory.fd, &name)?;
        let is_it = |stat: &Stat| self.tree.number(Identity::new(stat, Kind::Coupled)) == Some(id);
        found.filter(|(_, stat)| is_it(stat)).ok_or_else(stale)
    }

    /// Attributes of the generation of this number. One that is open is known without its agent,
    /// which may have ended.
    pub(crate) fn attributes_of_generation(&self, id: u64) -> Result<Shown> {
        if let Some(open) = self.handles.generation(id)
            && let Open::Generation { viewed, .. } = &*open
        {
            return Ok(Shown::generation(&rustix::fs::fstat(&viewed.file)?, id));
        }
        Ok(Shown::generation(&self.generation(id)?.1, id))
    }

    /// A generation is read as long as somebody has it open, and cannot be written.
    pub(crate) fn open_generation(&self, id: u64, flags: i32) -> Result<Opened> {
        if writes(flags) {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let (viewed, _) = self.generation(id)?;
        let handle = self.handles.insert(Open::Generation { viewed, id });
        Ok(Opened { handle, flags: FopenFlags::empty(), backing: None })
    }
}

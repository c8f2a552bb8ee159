//! Files that programs exchange in memory: each is shown as its newest generation, to programs
//! that are no readers of it.

use crate::held;
use crate::tree::{Kind, Seen};
use aggio_couple::{Viewed, Viewer};
use rustix::fs::Stat;
use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of a directory as programs see it: agents identify files by their names.
fn name_of(directory: &OwnedFd) -> Result<PathBuf> {
    std::fs::read_link(held::path(directory))
}

/// The generation that is to be seen under a name.
pub(crate) fn generation(
    viewer: &Viewer,
    directory: &OwnedFd,
    name: &OsStr,
) -> Result<Option<(Viewed, Stat)>> {
    let Some(viewed) = viewer.open(name_of(directory)?.join(name))? else { return Ok(None) };
    let stat = rustix::fs::fstat(&viewed.file)?;
    Ok(Some((viewed, stat)))
}

/// The coupled file of a name, if there is one.
pub(crate) fn see(viewer: &Viewer, directory: &OwnedFd, name: &OsStr) -> Result<Option<Seen>> {
    let Some((_, stat)) = generation(viewer, directory, name)? else { return Ok(None) };
    // A descriptor of the generation would keep its memory: the directory stands for it.
    let fd = Arc::new(directory.try_clone()?);
    Ok(Some(Seen { fd, stat, kind: Kind::Coupled, first: None }))
}

/// Names of the coupled files in a directory.
pub(crate) fn list(viewer: &Viewer, directory: &OwnedFd) -> Result<Vec<OsString>> {
    viewer.list(&name_of(directory)?)
}

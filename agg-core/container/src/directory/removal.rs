//! Removal of the directory of a container with all its parts.

use crate::directory::dir::Dir;
use crate::directory::part_names::ORDER;
use aggio_base::Result;
use std::path::Path;

/// Removes a container's directory: all files in it, and no directory below it. Several processes
/// may do so at the same time. The part `order` goes last: as long as it exists, its locks show
/// whether the container is needed.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    remove_open(&Dir::open(path)?)
}

/// The same for an open directory, under its current name.
pub(crate) fn remove_open(dir: &Dir) -> Result<()> {
    empty(dir)?;
    dir.remove_self()
}

fn empty(dir: &Dir) -> Result<()> {
    let names = dir.names()?;
    for name in names.iter().filter(|name| *name != ORDER) {
        dir.remove(name)?;
    }
    dir.remove(ORDER)
}

//! Which names mean sets of netCDF files that are read as the one file that they stand for.
//!
//! Reading starts no thread. Its locks are those of an open set and of the parts that are kept; a
//! child after `fork` opens the set again if one of them may have been held.

use crate::config;
use crate::containers::{aside, room};
use agg_core::{Error, Result};
use aggio_formats::files::Folder;
pub use aggio_formats::told;
use aggio_formats::{Cache, Logical, Options, Set};
use std::sync::Arc;

/// Whether a rule says that files of this name are sets.
pub fn names(path: &str) -> bool {
    config::get().settings.sets.names(path)
}

/// The set that is to be shown as `path`, and its directory.
///
/// # Errors
/// The system's error for the files that may be one.
pub fn find(path: &str) -> Result<Option<(Set, Folder)>> {
    let settings = &config::get().settings;
    if path.ends_with('/') || !settings.on || !settings.sets.shows(path) {
        return Ok(None);
    }
    let Some((mut folder, name)) =
        std::path::absolute(path).ok().and_then(|path| Folder::of(path.as_path()))
    else {
        return Ok(None);
    };
    folder.place = aside;
    // An existing file has precedence over a set, unless a rule names the set.
    let is_there = folder.path.join(&name).symlink_metadata().is_ok();
    if is_there && !names(path) || !is_there && !Set::may_be(&folder, &name) {
        return Ok(None);
    }
    let found = Set::find_rest(&folder, &name).map_err(|why| told(&why))?;
    Ok(found.map(|set| (set, folder)))
}

/// Whether the system did not let this process look: nobody else's files make a name a set.
pub fn is_forbidden(error: &Error) -> bool {
    error.errno() == libc::EACCES
}

/// Opens a set; its assembled parts are kept in `cache`.
///
/// # Errors
/// If a file is missing, damaged, or does not belong to the others; the error names it.
pub fn open_with(set: &Set, cache: Arc<Cache>) -> Result<Logical> {
    let most_open = room().clamp(4, 64);
    set.open(&Options { cache, most_open, ..Options::default() }).map_err(|why| told(&why))
}

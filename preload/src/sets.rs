//! Sets of netCDF files that are read as the one file that they stand for: which names mean one, and its bytes.
//!
//! Reading starts no thread. Its locks are those of an open set and of the parts that are kept; a child after `fork` that
//! cannot know that nobody held them opens the set again.

use crate::config;
use agg_core::driver::set::{self, OpenSet};
use agg_core::{Error, Result};
use aggio_formats::files::{self, Folder};
pub use aggio_formats::told;
use aggio_formats::{Cache, Logical, OneFile, Options, Set};
use std::sync::{Arc, OnceLock};

/// Says who finds the sets that files of MPI programs are.
pub fn configure() {
    files::keep_descriptors(crate::posix::aside);
    set::configure(set::Sets { names, first, open, remove, rename });
}

fn names(path: &str) -> bool {
    config::get().settings.sets.names(path)
}

/// The set that is to be shown as `path`, and its directory.
///
/// # Errors
/// What the system says of the files that may be one.
pub fn find(path: &str) -> Result<Option<(Set, Folder)>> {
    let settings = &config::get().settings;
    if path.ends_with('/') || !settings.on || !settings.sets.shows(path) {
        return Ok(None);
    }
    let Some((folder, name)) =
        std::path::absolute(path).ok().and_then(|path| Folder::of(path.as_path()))
    else {
        return Ok(None);
    };
    // What has the name is the file, unless the user says that it is none.
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

fn first(path: &str) -> Result<Option<String>> {
    match find(path) {
        Err(error) if is_forbidden(&error) => Ok(None),
        found => Ok(found?.map(|(set, folder)| folder.shown(&set.first()))),
    }
}

/// Opens a set; what is assembled of it is kept in `cache`.
///
/// # Errors
/// If a file is missing, damaged, or does not belong to the others; the error names it.
pub fn open_with(set: &Set, cache: Arc<Cache>) -> Result<Logical> {
    let most_open = crate::posix::room().clamp(4, 64);
    set.open(&Options { cache, most_open, ..Options::default() }).map_err(|why| told(&why))
}

fn remove(path: &str) -> Result<()> {
    let Some((set, _)) = find(path)? else { return Ok(()) };
    set.remove().map_err(|why| Error::os("unlink", &why).with_path(path))
}

fn rename(path: &str, to: &str, free: &set::Free<'_>) -> Result<()> {
    let Some((set, _)) = find(path)? else { return Ok(()) };
    let failed = |why: std::io::Error| Error::os("rename", &why).with_path(to);
    let place = std::path::absolute(to).ok().and_then(|to| Folder::of(&to));
    let Some((folder, name)) = place else {
        return Err(failed(std::io::Error::from_raw_os_error(libc::EINVAL)));
    };
    set.link(&folder, &name).map_err(failed)?;
    free()?;
    set.unlink().map_err(failed)
}

fn open(path: &str) -> Result<Option<OpenSet>> {
    /// Of all sets that the process has open together.
    static CACHE: OnceLock<Arc<Cache>> = OnceLock::new();
    let Some((set, _)) = find(path)? else { return Ok(None) };
    let cache = CACHE.get_or_init(|| Options::default().cache);
    Ok(Some(Box::new(OneFile(open_with(&set, Arc::clone(cache))?))))
}

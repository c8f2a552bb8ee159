//! Sets of netCDF files for programs with MPI, which read them as the one file that they stand for.

use agg_core::{Error, Result};
use aggio_formats::files::Folder;
use aggio_formats::set_driver::{Free, OpenSet};
use aggio_formats::{Cache, Finder, OneFile, Options, SetDriver};
use aggio_posix::sets::{find, is_forbidden, names, open_with};
use std::sync::{Arc, OnceLock};

/// The sets that files of MPI programs are.
pub fn driver() -> SetDriver {
    SetDriver::new(Finder { names, first, open, remove, rename })
}

fn first(path: &str) -> Result<Option<String>> {
    match find(path) {
        Err(error) if is_forbidden(&error) => Ok(None),
        found => Ok(found?.map(|(set, folder)| folder.shown(&set.first()))),
    }
}

fn remove(path: &str) -> Result<()> {
    let Some((set, _)) = find(path)? else { return Ok(()) };
    set.remove().map_err(|why| Error::os("unlink", &why).with_path(path))
}

fn rename(path: &str, to: &str, free: &Free<'_>) -> Result<()> {
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

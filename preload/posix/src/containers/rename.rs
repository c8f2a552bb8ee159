//! `rename`: containers and sets replace, and are replaced, as files are.

use super::super::errno;
use super::super::next;
use super::super::state::Inside;
use super::names::{Meant, meant, take_away, told};
use super::paths::{Name, is_of_a_directory, named};
use super::set::Named;
use super::table;
use crate::config::{drivers, remakes};
use agg_core::blob::{self, is_container};
use agg_core::{Error, Result};
use libc::{c_int, c_uint};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A name of the program's, and the directory that it is relative to.
type At = (c_int, Name);

/// `rename`, `renameat` and `renameat2`; `None` if neither name is ours.
pub fn rename(at: c_int, from: Name, there: c_int, to: Name, flags: c_uint) -> Option<c_int> {
    let (source, target) = (meant(at, from, false), meant(there, to, false));
    if source.is_none() && target.is_none() || flags & libc::RENAME_EXCHANGE != 0 {
        return None;
    }
    let _inside = Inside::enter();
    if flags & libc::RENAME_NOREPLACE != 0 && target.is_some() {
        return Some(errno::fail(libc::EEXIST) as c_int);
    }
    match (source, target) {
        (Some(Meant::Unknown(error)), _) | (_, Some(Meant::Unknown(error))) => {
            Some(told(Err(error)))
        }
        (Some(Meant::Set(set)), _) => {
            let path = named(there, to, false)?;
            if is_of_a_directory(from) || is_of_a_directory(to) {
                return Some(errno::fail(libc::ENOTDIR) as c_int);
            }
            Some(told(name_set(&set, &path, flags & libc::RENAME_NOREPLACE != 0)))
        }
        (source, Some(Meant::Set(set))) => {
            let source = source.map(Meant::container);
            Some(source.map_or_else(
                || replace_set_by_file((at, from), (there, to), &set),
                |source| told(source.and_then(|source| replace_set(&source, &set))),
            ))
        }
        (Some(Meant::Container(source)), _) => {
            let path = named(there, to, false)?;
            let same = table::identity_of(&source) == table::identity_of(&path);
            if !same && table::on(table::identity_of(&path)).next().is_some() {
                return match replace((at, from), (there, to)) {
                    Some(0) => Some(told(forget_shadowed(&source, false))),
                    other => other,
                };
            }
            Some(told(blob::rename(&source, &path).and_then(|()| forget_shadowed(&source, same))))
        }
        (None, _) => replace((at, from), (there, to)),
    }
}

/// A container has lost this name, and with it the older set that it hid.
fn forget_shadowed(source: &Path, is_there: bool) -> Result<()> {
    if is_there {
        Ok(())
    } else {
        source.to_str().map_or(Ok(()), |path| drivers().remove_hidden(path))
    }
}

/// Gives a set the name `to` and removes the previous file of that name.
fn name_set(set: &Named, to: &Path, only_new: bool) -> Result<()> {
    let fail = |errno| Error::os("rename", &io::Error::from_raw_os_error(errno));
    let there = to.symlink_metadata().ok();
    let container = is_container(to);
    if there.is_some() && only_new {
        return Err(fail(libc::EEXIST));
    }
    if there.as_ref().is_some_and(std::fs::Metadata::is_dir) && !container {
        return Err(fail(libc::EISDIR));
    }
    if is_same_name(set.path(), to) {
        return Ok(());
    }
    if let Some(other) = super::set::find(to)? {
        other.must_be_ours()?;
    }
    if !set.is_ours() && !to.to_str().is_some_and(remakes) {
        return Err(set.refusal());
    }
    set.rename(to, &|| match there {
        None => Ok(()),
        Some(_) if container => take_away(to),
        Some(_) => std::fs::remove_file(to).map_err(|error| Error::os("unlink", &error)),
    })
}

/// Whether both are the same name in the same directory, by whichever way that is reached.
fn is_same_name(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let facts = path.parent()?.metadata().ok()?;
        Some((facts.dev(), facts.ino(), path.file_name()?.to_owned()))
    };
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// A container takes the place of a set, which it hides from the moment when it has its name.
fn replace_set(source: &Path, set: &Named) -> Result<()> {
    set.must_be_ours()?;
    blob::rename(source, set.path())?;
    forget_shadowed(source, false)?;
    set.discard()
}

/// An ordinary file takes the place of a set, which it hides from the moment when it has its name.
fn replace_set_by_file((at, from): At, (there, to): At, set: &Named) -> c_int {
    if let Err(error) = set.must_be_ours() {
        return told(Err(error));
    }
    if named(at, from, false).is_some_and(|source| source.is_dir()) {
        return errno::fail(libc::ENOTDIR) as c_int;
    }
    // SAFETY: the program's names are C strings.
    match unsafe { next::renameat(at, from, there, to) } {
        0 => told(set.discard()),
        failed => failed,
    }
}

/// A file takes the place of a container: both change places, then the container goes.
fn replace((at, from): At, (there, to): At) -> Option<c_int> {
    let source = named(at, from, false)?;
    if source.symlink_metadata().ok()?.is_dir() && !is_container(&source) {
        return Some(errno::fail(libc::ENOTDIR) as c_int);
    }
    // SAFETY: the program's names are C strings.
    let swapped = unsafe { next::renameat2(at, from, there, to, libc::RENAME_EXCHANGE) };
    if swapped != 0 {
        return Some(swapped);
    }
    Some(told(take_away(&source)))
}

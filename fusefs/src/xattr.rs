//! Extended attributes: those of the files, and `user.aggio.*`, which describe a container or a
//! set. The latter are returned by name and are in no list: a program that copies all attributes of
//! a file could not set them anywhere.

use crate::held;
use crate::lists;
use crate::sets::OpenSet;
use crate::tree::{Kind, Known};
use agg_core::blob::{Attributes, MANIFEST};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The prefix of attributes that aggio provides and that cannot be set.
const OURS: &str = "user.aggio.";
/// Names of the attributes of a container.
const OF_CONTAINER: [&str; 5] = ["kind", "generation", "sealed", "size", "directory"];
/// The longest value or list that the system allows.
const MOST: usize = 1 << 16;

/// The part of a name behind the prefix of aggio.
pub(crate) fn own_name(name: &OsStr) -> Option<&str> {
    name.to_str().and_then(|name| name.strip_prefix(OURS))
}

fn is_own(name: &[u8]) -> bool {
    name.starts_with(OURS.as_bytes())
}

fn is_of_system(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"system.")
}

/// The attributes of a mount: its process, its directory and its version.
pub(crate) fn of_mount(name: &str, backend: &Path) -> Result<Vec<u8>> {
    match name {
        "backend" => Ok(backend.as_os_str().as_bytes().to_vec()),
        "pid" => Ok(std::process::id().to_string().into_bytes()),
        "version" => Ok(env!("CARGO_PKG_VERSION").into()),
        _ => Err(Errno::NODATA.into()),
    }
}

/// The attribute of a coupled file.
pub(crate) fn of_coupled(name: &str) -> Result<Vec<u8>> {
    if name == "kind" { Ok(b"memory".to_vec()) } else { Err(Errno::NODATA.into()) }
}

/// The attributes of a set, which is opened to count its files.
pub(crate) fn of_set(name: &str, open: impl FnOnce() -> Result<Arc<OpenSet>>) -> Result<Vec<u8>> {
    match name {
        "kind" => Ok(b"set".to_vec()),
        "files" => Ok(open()?.file.describe().files.len().to_string().into()),
        _ => Err(Errno::NODATA.into()),
    }
}

/// The attributes of the container in a directory; `look` finds those of the file.
pub(crate) fn of_container(
    name: &str,
    directory: &OwnedFd,
    look: impl FnOnce() -> Result<Attributes>,
) -> Result<Vec<u8>> {
    if !OF_CONTAINER.contains(&name) {
        return Err(Errno::NODATA.into());
    }
    let found = look()?;
    let text = match name {
        "kind" => "blob".into(),
        "generation" => found.generation.to_string(),
        "sealed" => u8::from(found.sealed).to_string(),
        "size" => found.size.to_string(),
        _ => held::name(directory),
    };
    Ok(text.into_bytes())
}

/// The value of an attribute that the file itself has.
pub(crate) fn value(known: &Known, name: &OsStr) -> Result<Vec<u8>> {
    let of_directory = known.is_container() && is_of_system(name);
    let is_access_list = name.as_bytes() == lists::OF_FILE;
    let is_list = is_access_list || name.as_bytes() == lists::PASSED_ON;
    let mut value = vec![0; MOST];
    let read = match known.kind {
        Kind::Coupled => return Err(Errno::NODATA.into()),
        // The permission bits of a set are those that all its files give.
        Kind::Set if is_list => return Err(Errno::NODATA.into()),
        // Access lists of the directory are not those of the file: the manifest has them.
        _ if of_directory && !is_access_list => return Err(Errno::NODATA.into()),
        _ if of_directory => {
            let manifest = held::path(&known.fd).join(MANIFEST);
            rustix::fs::lgetxattr(manifest, name, value.as_mut_slice())
        }
        _ => rustix::fs::getxattr(held::path(&known.fd), name, value.as_mut_slice()),
    };
    match read {
        // The kernel, which asks before it lets others in, takes it for a failure.
        Err(Errno::OPNOTSUPP) if is_list => Err(Errno::NODATA.into()),
        read => {
            value.truncate(read?);
            Ok(value)
        }
    }
}

/// All names but those of aggio, each with a zero byte behind it.
pub(crate) fn names(known: &Known) -> Result<Vec<u8>> {
    if known.kind == Kind::Coupled {
        return Ok(Vec::new());
    }
    let mut names = vec![0; MOST];
    let size = match rustix::fs::listxattr(held::path(&known.fd), names.as_mut_slice()) {
        Ok(size) => size,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    names.truncate(size);
    // Those of this name that a file has itself cannot be read through this view either.
    let others = names.split_inclusive(|byte| *byte == 0);
    Ok(others.filter(|name| !is_own(name)).flatten().copied().collect())
}

/// Refuses the names that aggio provides.
pub(crate) fn refuse_own(name: &OsStr) -> Result<()> {
    if is_own(name.as_bytes()) { Err(Errno::PERM.into()) } else { Ok(()) }
}

/// Refuses attributes that a file cannot have: access lists of the directory of a container would
/// not be those of the file.
fn refuse_lists(known: &Known, name: &OsStr) -> Result<()> {
    if known.is_container() && is_of_system(name) {
        return Err(Errno::OPNOTSUPP.into());
    }
    Ok(())
}

/// Sets an attribute of a file that may be changed.
pub(crate) fn set(known: &Known, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
    refuse_lists(known, name)?;
    let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
    Ok(rustix::fs::setxattr(held::path(&known.fd), name, value, flags)?)
}

/// Removes an attribute of a file that may be changed.
pub(crate) fn remove(known: &Known, name: &OsStr) -> Result<()> {
    refuse_lists(known, name)?;
    Ok(rustix::fs::removexattr(held::path(&known.fd), name)?)
}

#[cfg(test)]
#[path = "xattr_tests.rs"]
mod tests;

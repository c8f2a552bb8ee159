//! Extended attributes: those of the files, and `user.aggio.*`, which describe a container or a
//! set. The latter are returned by name and are in no list: a program that copies all attributes of
//! a file could not set them anywhere.

use crate::blob;
use crate::held;
use crate::lists;
use crate::tree::{Kind, Known, ROOT};
use crate::view::View;
use agg_core::blob::MANIFEST;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;

/// The prefix of attributes that aggio provides and that cannot be set.
const OURS: &str = "user.aggio.";
/// Names of the attributes of a container.
const OF_CONTAINER: [&str; 5] = ["kind", "generation", "sealed", "size", "directory"];
/// The longest value or list that the system allows.
const MOST: usize = 1 << 16;

impl View {
    /// The attributes of the mount: its process, its directory and its version.
    fn value_of_root(&self, name: &str) -> Result<Vec<u8>> {
        match name {
            "backend" => Ok(self.options.backend.as_os_str().as_bytes().to_vec()),
            "pid" => Ok(std::process::id().to_string().into_bytes()),
            "version" => Ok(env!("CARGO_PKG_VERSION").into()),
            _ => Err(Errno::NODATA.into()),
        }
    }

    fn own_value(&self, id: u64, known: &Known, name: &str) -> Result<Vec<u8>> {
        if id == ROOT {
            return self.value_of_root(name);
        }
        if known.kind == Kind::Coupled {
            let missing = Err(Errno::NODATA.into());
            return if name == "kind" { Ok(b"memory".to_vec()) } else { missing };
        }
        if known.kind == Kind::Set {
            return match name {
                "kind" => Ok(b"set".to_vec()),
                "files" => Ok(self.set(id, known)?.file.describe().files.len().to_string().into()),
                _ => Err(Errno::NODATA.into()),
            };
        }
        if !known.is_container() || !OF_CONTAINER.contains(&name) {
            return Err(Errno::NODATA.into());
        }
        let found = match self.open_blob(id) {
            Some(blob) => blob.attributes()?,
            None => blob::attributes(&known.fd)?,
        };
        let text = match name {
            "kind" => "blob".into(),
            "generation" => found.generation.to_string(),
            "sealed" => u8::from(found.sealed).to_string(),
            "size" => found.size.to_string(),
            _ => held::name(&known.fd),
        };
        Ok(text.into_bytes())
    }

    /// The value of an attribute.
    pub(crate) fn value(&self, id: u64, name: &OsStr) -> Result<Vec<u8>> {
        let known = self.tree.get(id)?;
        if let Some(ours) = name.to_str().and_then(|name| name.strip_prefix(OURS)) {
            return self.own_value(id, &known, ours);
        }
        let of_directory = known.is_container() && name.as_bytes().starts_with(b"system.");
        let is_access_list = name.as_bytes() == lists::OF_FILE;
        let is_list = [lists::OF_FILE, lists::PASSED_ON].contains(&name.as_bytes());
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
    pub(crate) fn names(&self, id: u64) -> Result<Vec<u8>> {
        let known = self.tree.get(id)?;
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
        Ok(others.filter(|name| !name.starts_with(OURS.as_bytes())).flatten().copied().collect())
    }

    /// The file with an attribute that may be changed.
    fn changed(&self, id: u64, name: &OsStr) -> Result<Known> {
        if !self.options.write {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let known = self.tree.get(id)?;
        if name.as_bytes().starts_with(OURS.as_bytes()) {
            return Err(Errno::PERM.into());
        }
        if matches!(known.kind, Kind::Set | Kind::Coupled) {
            return Err(rustix::io::Errno::ROFS.into());
        }
        if known.is_container() && name.as_bytes().starts_with(b"system.") {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(known)
    }

    pub(crate) fn set_value(&self, id: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let known = self.changed(id, name)?;
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        Ok(rustix::fs::setxattr(held::path(&known.fd), name, value, flags)?)
    }

    pub(crate) fn remove_value(&self, id: u64, name: &OsStr) -> Result<()> {
        let known = self.changed(id, name)?;
        Ok(rustix::fs::removexattr(held::path(&known.fd), name)?)
    }
}

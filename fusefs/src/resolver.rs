//! Names in the backing directory, and the files that they stand for.

use crate::attributes::{self, is_directory, is_regular};
use crate::coupled;
use crate::held;
use crate::listing::Entry;
use crate::sets;
use crate::tree::{Kind, Seen, open_name};
use agg_core::blob::{MANIFEST, is_container, is_hidden};
use aggio_couple::{Viewed, Viewer};
use aggio_formats::Sets;
use fuser::FileType;
use rustix::fs::{AtFlags, Dir, Stat};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Finds the file that a name stands for: a plain one, a container, a set or a coupled file.
pub(crate) struct Resolver {
    /// Opens files that programs exchange in memory.
    coupled: Option<Viewer>,
    /// Whether the files of sets are listed, too.
    subfiles: bool,
}

impl Resolver {
    pub(crate) fn new(coupled: Option<Viewer>, subfiles: bool) -> Self {
        Resolver { coupled, subfiles }
    }

    /// The file of a name.
    pub(crate) fn find(&self, directory: &OwnedFd, name: &OsStr) -> Result<Seen> {
        if is_hidden(name) {
            return Err(rustix::io::Errno::NOENT.into());
        }
        if let Some(viewer) = &self.coupled
            && let Some(seen) = coupled::see(viewer, directory, name)?
        {
            return Ok(seen);
        }
        let fd = match open_name(directory, name) {
            Err(why) if why.kind() == ErrorKind::NotFound => {
                return sets::see(directory, name)?.ok_or(why);
            }
            fd => Arc::new(fd?),
        };
        let stat = rustix::fs::fstat(&*fd)?;
        if is_regular(&stat)
            && let Some(seen) = sets::see(directory, name)?
        {
            return Ok(seen);
        }
        let container = is_directory(&stat) && has_manifest(&fd);
        let kind = if container { Kind::Container } else { Kind::Plain };
        Ok(Seen { fd, stat, kind, first: None })
    }

    /// The generation of a coupled file, if the name has one.
    pub(crate) fn generation(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
    ) -> Result<Option<(Viewed, Stat)>> {
        match &self.coupled {
            Some(viewer) => coupled::generation(viewer, directory, name),
            None => Ok(None),
        }
    }

    /// The entries of a directory, which has the number `id`.
    pub(crate) fn entries(&self, directory: &Arc<OwnedFd>, id: u64) -> Result<Vec<Entry>> {
        let dot = |name: &str| Entry { number: id, kind: FileType::Directory, name: name.into() };
        let mut entries = vec![dot("."), dot("..")];
        let mut sets = Sets::of(sets::folder(directory));
        for entry in Dir::read_from(held::reopen_directory(directory)?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || is_hidden(name) {
                continue;
            }
            let number = entry.ino().max(2);
            // An error in a set is reported when the set is opened, not when its directory is
            // listed.
            if let Ok(Some(set)) = sets::that_has(&mut sets, name) {
                if *name == *set.first() && *name != *set.name() {
                    let name = set.name().into();
                    entries.push(Entry { number, kind: FileType::RegularFile, name });
                }
                if !self.subfiles {
                    continue;
                }
            }
            // Skip entries that vanished meanwhile.
            let Some(kind) = self.kind(directory, name, entry.file_type()) else { continue };
            entries.push(Entry { number, kind, name: name.to_owned() });
        }
        self.add_coupled(directory, &mut entries)?;
        Ok(entries)
    }

    /// Adds the coupled files that are not on disk.
    fn add_coupled(&self, directory: &OwnedFd, entries: &mut Vec<Entry>) -> Result<()> {
        let Some(viewer) = &self.coupled else { return Ok(()) };
        let found = coupled::list(viewer, directory)?;
        let new = found.into_iter().filter(|name| entries.iter().all(|one| one.name != *name));
        let new: Vec<OsString> = new.collect();
        let entry = |name| Entry { number: u64::MAX, kind: FileType::RegularFile, name };
        entries.extend(new.into_iter().map(entry));
        Ok(())
    }

    /// The kind of an entry: a directory may be a container.
    fn kind(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        told: rustix::fs::FileType,
    ) -> Option<FileType> {
        use rustix::fs::FileType as Told;
        if !matches!(told, Told::Directory | Told::Unknown) {
            return Some(attributes::kind(told.as_raw_mode()));
        }
        let seen = self.find(directory, name).ok()?;
        let kind = attributes::kind(seen.stat.st_mode);
        Some(if seen.is_container() { FileType::RegularFile } else { kind })
    }
}

/// Whether a directory is a container. The first look is cheap and decides for most.
fn has_manifest(directory: &Arc<OwnedFd>) -> bool {
    let found = rustix::fs::statat(&**directory, MANIFEST, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok() && is_container(&held::directory(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, held, set};
    use std::path::Path;

    fn backing(folder: &Path) -> Arc<OwnedFd> {
        std::fs::write(folder.join("file"), b"bytes").unwrap();
        std::fs::create_dir(folder.join("folder")).unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        container(&folder.join("container"), b"");
        set(folder);
        held(folder)
    }

    #[test]
    fn a_name_stands_for_a_file_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let directory = backing(folder.path());
        let resolver = Resolver::new(None, false);
        for (name, kind) in [
            ("file", Kind::Plain),
            ("folder", Kind::Plain),
            ("link", Kind::Plain),
            ("container", Kind::Container),
            ("x.h5", Kind::Set),
        ] {
            let seen = resolver.find(&directory, OsStr::new(name)).unwrap();
            assert_eq!(seen.kind, kind, "{name}");
        }
        std::fs::create_dir(folder.path().join(".aggio-0123456789abcdef")).unwrap();
        for name in [".aggio-0123456789abcdef", "nothing"] {
            let why = resolver.find(&directory, OsStr::new(name)).err().unwrap();
            assert_eq!(why.kind(), ErrorKind::NotFound, "{name}");
        }
        assert!(resolver.find(&directory, OsStr::new("..")).is_err());
        assert!(resolver.generation(&directory, OsStr::new("file")).unwrap().is_none());
    }

    #[test]
    fn a_listing_has_containers_as_files_and_files_of_sets_if_they_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let directory = backing(folder.path());
        std::fs::create_dir(folder.path().join(".aggio-0123456789abcdef")).unwrap();
        let list = |subfiles| {
            let entries = Resolver::new(None, subfiles).entries(&directory, 7).unwrap();
            assert!(entries.iter().take(2).all(|dot| dot.is_dot() && dot.number == 7));
            let mut names: Vec<_> = entries.into_iter().map(|one| (one.name, one.kind)).collect();
            names.sort_by(|one, other| one.0.cmp(&other.0));
            names
        };
        let expected = [
            (".", FileType::Directory),
            ("..", FileType::Directory),
            ("container", FileType::RegularFile),
            ("file", FileType::RegularFile),
            ("folder", FileType::Directory),
            ("link", FileType::Symlink),
            ("x.h5", FileType::RegularFile),
        ];
        assert_eq!(list(false), expected.map(|(name, kind)| (OsString::from(name), kind)));
        let all: Vec<_> = list(true).into_iter().map(|(name, _)| name).collect();
        assert!(all.contains(&"x.h5.subfile_7_1_of_2".into()), "{all:?}");
        assert_eq!(all.iter().filter(|name| *name == "x.h5").count(), 1);
    }
}

//! Listing directories.

use crate::attributes;
use crate::coupled;
use crate::held;
use crate::listing::{self, Entry, Listing};
use crate::sets;
use crate::view::View;
use agg_core::blob::is_hidden;
use aggio_formats::Sets;
use fuser::{FileHandle, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use rustix::fs::Dir;
use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

fn kind(of: rustix::fs::FileType) -> FileType {
    attributes::kind(of.as_raw_mode())
}

impl View {
    pub(crate) fn open_directory(&self, id: u64) -> Result<Listing> {
        self.tree.get(id)?;
        Ok(Listing::new(id))
    }

    /// The entries; read anew when the program starts from the beginning.
    fn entries(&self, listing: &Listing, offset: u64) -> Result<Arc<Vec<Entry>>> {
        listing.entries(offset, || self.read_entries(listing.id))
    }

    fn read_entries(&self, id: u64) -> Result<Vec<Entry>> {
        let known = self.tree.get(id)?;
        let directory = held::reopen_directory(&known.fd)?;
        let dot = |name: &str| Entry { number: id, kind: FileType::Directory, name: name.into() };
        let mut entries = vec![dot("."), dot("..")];
        let mut sets = Sets::of(sets::folder(&known.fd));
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || is_hidden(name) {
                continue;
            }
            // An error in a set is reported when the set is opened, not when its directory is
            // listed.
            if let Ok(Some(set)) = sets::that_has(&mut sets, name) {
                if *name == *set.first() && *name != *set.name() {
                    let (number, kind) = (entry.ino().max(2), FileType::RegularFile);
                    entries.push(Entry { number, kind, name: set.name().into() });
                }
                if !self.options.subfiles {
                    continue;
                }
            }
            let found = self.kind_of_entry(&known.fd, name, entry.file_type());
            // Skip entries that vanished meanwhile.
            let Some(kind) = found else { continue };
            entries.push(Entry { number: entry.ino().max(2), kind, name: name.to_owned() });
        }
        self.add_coupled(&known.fd, &mut entries)?;
        Ok(entries)
    }

    /// Adds the coupled files that are not on disk.
    fn add_coupled(&self, directory: &OwnedFd, entries: &mut Vec<Entry>) -> Result<()> {
        let Some(viewer) = &self.options.coupled else { return Ok(()) };
        let found = coupled::list(viewer, directory)?;
        let new = found.into_iter().filter(|name| entries.iter().all(|one| one.name != *name));
        let new: Vec<OsString> = new.collect();
        let entry = |name| Entry { number: u64::MAX, kind: FileType::RegularFile, name };
        entries.extend(new.into_iter().map(entry));
        Ok(())
    }

    fn kind_of_entry(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        told: rustix::fs::FileType,
    ) -> Option<FileType> {
        use rustix::fs::FileType as Told;
        if !matches!(told, Told::Directory | Told::Unknown) {
            return Some(kind(told));
        }
        let seen = self.see(directory, name).ok()?;
        Some(if seen.is_container() {
            FileType::RegularFile
        } else {
            attributes::kind(seen.stat.st_mode)
        })
    }

    pub(crate) fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        let open = self.handles.get(handle)?;
        let entries = self.entries(open.listing()?, offset)?;
        for (next, entry) in listing::from(&entries, offset) {
            if reply.add(INodeNo(entry.number), next, entry.kind, &entry.name) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn list_with_attributes(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let open = self.handles.get(handle)?;
        let listing = open.listing()?;
        let entries = self.entries(listing, offset)?;
        let directory = self.tree.get(listing.id)?;
        for (next, entry) in listing::from(&entries, offset) {
            let (shown, ttl) = if entry.is_dot() {
                // The kernel counts no look-up for these two.
                let stat = rustix::fs::fstat(&*directory.fd)?;
                (attributes::of_plain(&stat, listing.id), Duration::ZERO)
            } else {
                match self.entry_in_listing(listing.id, &entry.name) {
                    Ok(shown) => (shown.attributes, shown.ttl),
                    Err(_) => continue,
                }
            };
            if reply.add(shown.ino, next, &entry.name, &ttl, &shown, Generation(0)) {
                if !entry.is_dot() {
                    self.forget(shown.ino.0, 1);
                }
                break;
            }
        }
        Ok(())
    }
}

//! Listing directories.

use crate::attributes;
use crate::listing::{self, Entry, Listing};
use crate::view::View;
use fuser::{FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::io::Result;
use std::sync::Arc;
use std::time::Duration;

impl View {
    pub(crate) fn open_directory(&self, id: u64) -> Result<Listing> {
        self.tree.get(id)?;
        Ok(Listing::new(id))
    }

    /// The entries; read anew when the program starts from the beginning.
    fn entries(&self, listing: &Listing, offset: u64) -> Result<Arc<Vec<Entry>>> {
        let read = || self.resolver.entries(&self.tree.get(listing.id)?.fd, listing.id);
        listing.entries(offset, read)
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

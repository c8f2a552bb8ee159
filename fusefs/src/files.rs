//! Opening and closing files: handles, and the state that all opens of a file share.

use crate::blob::Blob;
use crate::containers::Containers;
use crate::handles::Handles;
use crate::open_file::OpenFile;
use crate::options::Options;
use crate::passthrough::Passthrough;
use crate::set_ids::SET_IDS;
use crate::sets::{OpenSet, OpenSets};
use crate::stamp::Stamp;
use crate::tree::Tree;
use agg_core::driver::caches;
use agg_core::log::Level;
use aggio_couple::Viewed;
use fuser::{BackingId, FileHandle, FopenFlags};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::Result;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// How a file was opened, for the kernel.
pub(crate) struct Opened {
    pub(crate) handle: FileHandle,
    pub(crate) flags: FopenFlags,
    pub(crate) backing: Option<Arc<BackingId>>,
}

/// Whether these flags of `open` allow writing.
pub(crate) fn writes(flags: i32) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE != OFlags::RDONLY
}

fn appends(flags: i32) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(OFlags::APPEND)
}

/// The flags of an open file of which the kernel keeps the data that it has.
fn keeping(kept: bool) -> FopenFlags {
    if kept { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() }
}

/// All open files.
pub(crate) struct Files {
    pub(crate) handles: Handles,
    pub(crate) containers: Containers,
    pub(crate) sets: OpenSets,
    pub(crate) passthrough: Passthrough,
}

impl Files {
    pub(crate) fn new(options: &Options) -> Self {
        Files {
            handles: Handles::default(),
            containers: Containers::new(options.verify),
            sets: OpenSets::new(options.holes),
            passthrough: Passthrough::new(options.passthrough),
        }
    }

    fn opened(&self, open: OpenFile, flags: FopenFlags) -> Opened {
        Opened { handle: self.handles.insert(open), flags, backing: None }
    }

    pub(crate) fn open_plain(
        &self,
        id: u64,
        file: File,
        tree: &Tree,
        register: impl FnOnce(&File) -> Result<BackingId>,
    ) -> Result<Opened> {
        let stat = rustix::fs::fstat(&file)?;
        let kept = tree.has_kept(id, Stamp::of_plain(&stat));
        let access = rustix::fs::fcntl_getfl(&file)? & OFlags::RWMODE;
        let writes = access != OFlags::RDONLY;
        if access != OFlags::WRONLY {
            caches::renew(file.as_raw_fd(), stat.st_dev);
        }
        let may_pass = stat.st_mode & SET_IDS == 0;
        let backing = self.passthrough.begin(id, writes, may_pass.then_some(|| register(&file)));
        let flags = keeping(kept && backing.is_none());
        let opened = self.opened(OpenFile::Plain { file, id, writes }, flags);
        Ok(Opened { backing, ..opened })
    }

    /// Opens a container that was reserved; if that fails, it is released.
    pub(crate) fn open_container(
        &self,
        id: u64,
        blob: Arc<Blob>,
        flags: i32,
        tree: &Tree,
    ) -> Result<Opened> {
        let writes = writes(flags);
        let begin = || -> Result<bool> {
            let kept = tree.has_kept(id, blob.stamp()?) && !writes;
            blob.begin(writes)?;
            Ok(kept)
        };
        let kept = begin().inspect_err(|_| {
            // The error of opening is the one that counts; nothing was written.
            let _ = self.containers.release(id, &blob, false);
        })?;
        // Where an append goes is known when it is carried out: nothing of it may be remembered.
        let flags = match writes && appends(flags) {
            true => FopenFlags::FOPEN_DIRECT_IO,
            false => keeping(kept),
        };
        Ok(self.opened(OpenFile::Blob { blob, id, writes }, flags))
    }

    /// A set is read as it was when it was opened.
    pub(crate) fn open_set(&self, id: u64, set: Arc<OpenSet>, tree: &Tree) -> Opened {
        let kept = tree.has_kept(id, set.stamp());
        self.opened(OpenFile::Set { set }, keeping(kept))
    }

    /// A generation is read as long as somebody has it open.
    pub(crate) fn open_generation(&self, id: u64, viewed: Viewed) -> Opened {
        self.opened(OpenFile::Generation { viewed, id }, FopenFlags::empty())
    }

    /// A handle is closed for good.
    pub(crate) fn close(&self, handle: FileHandle) {
        if let Some(open) = self.handles.remove(handle) {
            self.end(&open);
        }
    }

    fn end(&self, open: &OpenFile) {
        match open {
            OpenFile::Plain { id, writes, .. } => self.passthrough.end(*id, *writes),
            OpenFile::Directory(_) | OpenFile::Set { .. } | OpenFile::Generation { .. } => {}
            OpenFile::Blob { blob, id, writes } => {
                if let Err(why) = self.containers.release(*id, blob, *writes) {
                    agg_core::log!(Level::Error, "{}: not sealed: {why}", blob.name());
                }
            }
        }
    }

    /// Closes all files that are still open when the file system ends.
    pub(crate) fn end_all(&self) {
        for open in self.handles.drain() {
            self.end(&open);
        }
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;

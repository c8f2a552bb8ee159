//! Open files and directories.

use crate::blob::Blob;
use crate::listing::Listing;
use crate::sets::OpenSet;
use aggio_couple::Viewed;
use fuser::FileHandle;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open file or directory.
pub(crate) enum Open {
    /// A file that is shown as it is.
    Plain { file: File, id: u64, writes: bool },
    /// A container.
    Blob { blob: Arc<Blob>, id: u64, writes: bool },
    /// A set of netCDF files.
    Set { set: Arc<OpenSet> },
    /// A generation of a file that programs exchange in memory.
    Generation { viewed: Viewed, id: u64 },
    /// A directory.
    Directory(Listing),
}

impl Open {
    /// The entries of a directory; of anything else there are none.
    pub(crate) fn listing(&self) -> Result<&Listing> {
        match self {
            Open::Directory(listing) => Ok(listing),
            _ => Err(rustix::io::Errno::NOTDIR.into()),
        }
    }
}

/// All open files.
#[derive(Default)]
pub(crate) struct Handles {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<Open>>>,
}

impl Handles {
    pub(crate) fn insert(&self, open: Open) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, Arc::new(open));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<Open>> {
        let bad = || Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error());
        self.open.read().get(&handle.0).cloned().ok_or_else(bad)
    }

    /// An open file of the generation with this number.
    pub(crate) fn generation(&self, id: u64) -> Option<Arc<Open>> {
        let is_it =
            |open: &&Arc<Open>| matches!(&***open, Open::Generation { id: of, .. } if *of == id);
        self.open.read().values().find(is_it).cloned()
    }

    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Arc<Open>> {
        self.open.write().remove(&handle.0)
    }

    /// Everything that is still open at the end.
    pub(crate) fn drain(&self) -> Vec<Arc<Open>> {
        self.open.write().drain().map(|(_, open)| open).collect()
    }
}

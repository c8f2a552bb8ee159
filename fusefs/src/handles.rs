//! The handles of open files and directories.

use crate::open_file::OpenFile;
use fuser::FileHandle;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::io::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All open files.
#[derive(Default)]
pub(crate) struct Handles {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<OpenFile>>>,
}

impl Handles {
    pub(crate) fn insert(&self, open: OpenFile) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, Arc::new(open));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        let bad = || Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error());
        self.open.read().get(&handle.0).cloned().ok_or_else(bad)
    }

    /// An open file of the generation with this number.
    pub(crate) fn generation(&self, id: u64) -> Option<Arc<OpenFile>> {
        let open = self.open.read();
        open.values().find(|open| open.generation() == Some(id)).cloned()
    }

    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.open.write().remove(&handle.0)
    }

    /// Everything that is still open at the end.
    pub(crate) fn drain(&self) -> Vec<Arc<OpenFile>> {
        self.open.write().drain().map(|(_, open)| open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listing;

    #[test]
    fn a_handle_leads_to_its_file_until_it_is_removed() {
        let handles = Handles::default();
        let insert = |id| handles.insert(OpenFile::Directory(Listing::new(id)));
        let (one, other) = (insert(7), insert(8));
        let id = |handle| handles.get(handle).and_then(|open| Ok(open.listing()?.id));
        assert_eq!((id(one).unwrap(), id(other).unwrap()), (7, 8));
        assert!(handles.remove(one).is_some() && handles.remove(one).is_none());
        let bad = rustix::io::Errno::BADF.raw_os_error();
        assert_eq!(id(one).unwrap_err().raw_os_error(), Some(bad));
        assert!(handles.generation(8).is_none());
        assert_eq!(handles.drain().len(), 1);
        assert!(id(other).is_err());
    }
}

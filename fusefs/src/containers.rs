//! The containers that programs have open here: all opens of one share its reader and its log.

use crate::blob::{self, Blob};
use agg_core::blob::{Attributes, Container, Verify};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The open containers, by their numbers.
pub(crate) struct Containers {
    open: Mutex<HashMap<u64, Arc<Blob>>>,
    verify: Verify,
}

impl Containers {
    pub(crate) fn new(verify: Verify) -> Self {
        Containers { open: Mutex::default(), verify }
    }

    /// The container of this number if it is open.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Blob>> {
        self.open.lock().get(&id).cloned()
    }

    /// The container of this number; opened for the caller alone if it is not open.
    pub(crate) fn get_or_open(&self, id: u64, fd: &Arc<OwnedFd>) -> Result<Arc<Blob>> {
        match self.get(id) {
            Some(blob) => Ok(blob),
            None => Ok(Arc::new(Blob::open(Arc::clone(fd), self.verify)?)),
        }
    }

    /// The attributes of a container, which may have a number.
    pub(crate) fn attributes(&self, id: Option<u64>, fd: &OwnedFd) -> Result<Attributes> {
        match id.and_then(|id| self.get(id)) {
            Some(blob) => blob.attributes(),
            None => blob::attributes(fd),
        }
    }

    /// The container of this number, opened if it is not, and marked as in use until it is
    /// released.
    pub(crate) fn reserve(&self, id: u64, fd: &Arc<OwnedFd>) -> Result<Arc<Blob>> {
        let mut open = self.open.lock();
        let blob = match open.get(&id) {
            Some(blob) => Arc::clone(blob),
            None => {
                let blob = Arc::new(Blob::open(Arc::clone(fd), self.verify)?);
                open.insert(id, Arc::clone(&blob));
                blob
            }
        };
        // Before the table is free again: a thread that closes the container now must see that it
        // is in use.
        blob.reserve();
        Ok(blob)
    }

    /// The same for a container that was made just now; its path goes through the descriptor
    /// `home`.
    pub(crate) fn reserve_made(
        &self,
        id: u64,
        fd: Arc<OwnedFd>,
        (container, home): (Container, Arc<OwnedFd>),
    ) -> Result<Arc<Blob>> {
        let blob = Arc::new(Blob::made(fd, (container, home), self.verify)?);
        blob.reserve();
        self.open.lock().insert(id, Arc::clone(&blob));
        Ok(blob)
    }

    /// Ends one use of a container; `writes` says that it was begun for writing.
    pub(crate) fn release(&self, id: u64, blob: &Arc<Blob>, writes: bool) -> Result<()> {
        let (unused, result) = blob.end(writes);
        if unused {
            let mut open = self.open.lock();
            if blob.is_unused() && open.get(&id).is_some_and(|open| Arc::ptr_eq(open, blob)) {
                open.remove(&id);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, held};
    use tempfile::TempDir;

    fn made() -> (TempDir, Container, Arc<OwnedFd>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let made = container(&path, b"");
        (folder, made, held(&path))
    }

    #[test]
    fn all_opens_of_a_container_share_it_until_the_last_one_is_released() {
        let (_folder, _container, fd) = made();
        let containers = Containers::new(Verify::Never);
        assert!(containers.get(7).is_none());
        let first = containers.reserve(7, &fd).unwrap();
        first.begin(true).unwrap();
        let second = containers.reserve(7, &fd).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        first.write(|log| log.write_at(b"four", 0)).unwrap();
        assert_eq!(containers.attributes(Some(7), &fd).unwrap().size, 4);
        containers.release(7, &first, true).unwrap();
        assert!(Arc::ptr_eq(&containers.get(7).unwrap(), &first));
        containers.release(7, &second, false).unwrap();
        assert!(containers.get(7).is_none());
        assert_eq!(containers.attributes(None, &fd).unwrap().size, 4);
    }

    #[test]
    fn a_container_that_is_opened_for_one_call_is_not_kept() {
        let (_folder, _container, fd) = made();
        let containers = Containers::new(Verify::Never);
        let once = containers.get_or_open(7, &fd).unwrap();
        assert!(containers.get(7).is_none());
        let open = containers.reserve(7, &fd).unwrap();
        assert!(!Arc::ptr_eq(&once, &open));
        assert!(Arc::ptr_eq(&containers.get_or_open(7, &fd).unwrap(), &open));
    }

    #[test]
    fn a_container_with_the_number_of_another_one_stays_when_that_is_released() {
        let (_folder, _container, fd) = made();
        let (folder, other, _) = made();
        let containers = Containers::new(Verify::Never);
        let old = containers.reserve(7, &fd).unwrap();
        let made = (other, held(folder.path()));
        let new = containers.reserve_made(7, Arc::clone(&fd), made).unwrap();
        containers.release(7, &old, false).unwrap();
        assert!(Arc::ptr_eq(&containers.get(7).unwrap(), &new));
        containers.release(7, &new, false).unwrap();
        assert!(containers.get(7).is_none());
    }
}

//! The locks of atomic mode: of the node if it has all ranks, else on the file itself.

use super::File;
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_comm::transport::{LockGuard, SharedLocks};
use aggio_store::driver::Driver;
use std::sync::Arc;

/// Locks on the file itself, which ranks on several hosts share through its file system.
struct FileLocks(Arc<dyn Driver>);

impl SharedLocks for FileLocks {
    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        self.0.try_lock(extent, exclusive)
    }
}

impl File {
    /// Makes the locks of atomic mode; all ranks have met before.
    pub(super) async fn share_locks(&self, tags: &TagBlock) -> Result<()> {
        if self.transport.size() == 1 || self.locks.get().is_some() {
            return Ok(());
        }
        let tag = tags.tag(3);
        let locks = match self.transport.nodes().count() {
            1 => self.transport.share_locks(tag).await?,
            _ => self.locks_of_the_file(tag).await?,
        };
        self.locks.get_or_init(|| locks);
        Ok(())
    }

    /// Whether each node has memory of its own for the file.
    pub(super) fn is_by_node(&self) -> bool {
        self.facts.is_by_node && self.transport.nodes().count() > 1
    }

    /// Locks on the file, if the ranks that are sure to see it can have them.
    async fn locks_of_the_file(&self, tag: u32) -> Result<Arc<dyn SharedLocks>> {
        let locks = FileLocks(Arc::clone(&self.driver));
        let tried = if self.is_by_node() {
            let text = "no locks of several nodes on a file that programs exchange in memory";
            Err(Error::new(ErrorClass::UnsupportedOperation, text))
        } else if self.aggregators.contains(&self.transport.rank()) {
            locks.try_lock(Extent::new(0, 1), self.amode.is_writable()).map(drop)
        } else {
            Ok(())
        };
        group::agree(&*self.transport, tag, tried).await?;
        Ok(Arc::new(locks))
    }

    /// The locks of atomic mode.
    pub(super) fn locks(&self) -> Result<&Arc<dyn SharedLocks>> {
        let none = || Error::new(ErrorClass::Intern, "atomic mode without locks");
        self.locks.get().ok_or_else(none)
    }
}

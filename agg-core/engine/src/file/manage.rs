//! Size, storage, durability and consistency of an open file.

use super::agreement::{Kind, meet, meet_with_news, same_everywhere, step};
use super::resize::Resize;
use super::settling::SettlingFlush;
use super::{Direction, File};
use aggio_base::error::{ErrorClass, Result};
use aggio_comm::task::BoxFuture;
use std::sync::Arc;

impl File {
    /// Truncates or extends the file to `size` bytes; collective, with equal sizes on all ranks.
    /// One rank does it, and every rank receives the result.
    ///
    /// # Errors
    /// `Arg` if the sizes differ or are negative; `ReadOnly`, `UnsupportedOperation` by mode; the
    /// file system's error. The same error on every rank.
    pub fn set_size(self: &Arc<Self>, size: i64) -> BoxFuture<'static, Result<()>> {
        Resize::start(self, Kind::SetSize, "MPI_File_set_size", size)
    }

    /// Makes sure that the file's first `size` bytes have storage; never shrinks it. Collective,
    /// with equal sizes on all ranks.
    ///
    /// # Errors
    /// As [`File::set_size`].
    pub fn preallocate(self: &Arc<Self>, size: i64) -> BoxFuture<'static, Result<()>> {
        Resize::start(self, Kind::Preallocate, "MPI_File_preallocate", size)
    }

    /// The file's size in bytes. Not collective.
    ///
    /// # Errors
    /// The file system's error.
    pub fn size(&self) -> Result<u64> {
        let drained = self
            .lifecycle
            .check_open()
            .and_then(|()| self.write_behind.settle_own(Direction::Read, None));
        let size = drained.and_then(|()| self.driver().size());
        size.map_err(|error| self.context(error, "MPI_File_get_size"))
    }

    /// Makes the writes of all ranks durable and visible to all; collective.
    ///
    /// # Errors
    /// The file system's error on any rank, on every rank.
    pub fn sync(self: &Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let (file, flush, tags) = (self.clone(), SettlingFlush::new(self), self.tags.next());
        Box::pin(async move {
            let flushed = flush.run().await;
            let synced =
                file.lifecycle.check_open().and(flushed).and_then(|()| file.storage.sync());
            let synced = async {
                let (transport, news) = (&*file.transport, file.storage.format().has_news());
                let met = meet_with_news(transport, &tags, Kind::Sync, [0; 4], synced, news).await;
                let told = match &met {
                    Ok((_, true)) => {
                        file.storage
                            .format()
                            .share_news(&*file.transport, tags.tag(step::NEWS))
                            .await
                    }
                    _ => Ok(()),
                };
                // Only now the writes of the other ranks have reached the file.
                file.driver().renew();
                file.storage.small().renewed();
                met.and(told)
            };
            synced.await.map_err(|error| file.context(error, "MPI_File_sync"))
        })
    }

    /// Turns atomic mode on or off; collective, with equal arguments on all ranks.
    ///
    /// In atomic mode, accesses through this open that conflict take effect one after the other.
    ///
    /// # Errors
    /// `Arg` if the arguments differ, `UnsupportedOperation` if the ranks are on several
    /// hosts and the file system has no locks; the same
    /// error on every rank.
    pub fn set_atomicity(self: &Arc<Self>, atomic: bool) -> BoxFuture<'static, Result<()>> {
        let (file, flush, tags) = (self.clone(), SettlingFlush::new(self), self.tags.next());
        Box::pin(async move {
            let set = async {
                let flushed = flush.run().await;
                let (words, checked) =
                    ([u64::from(atomic), 0, 0, 0], file.lifecycle.check_open().and(flushed));
                let all = meet(&*file.transport, &tags, Kind::SetAtomicity, words, checked).await?;
                same_everywhere(&all, ErrorClass::Arg, "the flag")?;
                match atomic {
                    true => {
                        let (transport, trial) = (
                            &*file.transport,
                            file.storage.lock_trial(file.views.amode().is_writable()),
                        );
                        file.atomic.share_locks(transport, tags.tag(3), file.driver(), trial).await
                    }
                    false => Ok(()),
                }
            };
            set.await.map_err(|error| file.context(error, "MPI_File_set_atomicity"))?;
            file.atomic.set(atomic);
            Ok(())
        })
    }

    /// Makes other ranks store their buffered writes, before this rank alone reads the file's size.
    ///
    /// # Errors
    /// `Io` if another rank could not store its buffered writes, `Other` if its process has ended.
    pub fn settled(self: &Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let file = self.clone();
        Box::pin(async move { file.write_behind.ask(Direction::Read, None).await })
    }

    /// Whether atomic mode is on.
    pub fn atomicity(&self) -> bool {
        self.atomic.is_on()
    }
}

//! The close of a file on all ranks.

use super::agreement::{Kind, Words, from_rank, meet, meet_with_news};
use super::set_conversion::SetConversion;
use super::settling::SettlingFlush;
use super::{Amode, File};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::tags::TagBlock;
use std::sync::Arc;

/// A close in progress.
pub(super) struct Closing {
    file: Arc<File>,
    flush: SettlingFlush,
    tags: TagBlock,
    /// Tags of the conversion to a set of files.
    seal: TagBlock,
    /// Tags of the meeting behind the last close of the file.
    last: TagBlock,
}

impl Closing {
    /// Takes the place of the close among the operations of the file.
    pub(super) fn new(file: &Arc<File>) -> Self {
        let flush = SettlingFlush::new(file);
        let [tags, seal, last] = [(); 3].map(|()| file.tags.next());
        Self { file: file.clone(), flush, tags, seal, last }
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The same on every rank.
    pub(super) async fn run(self) -> Result<()> {
        let Self { file, flush, tags, seal, last } = self;
        let local = flush_all(&file, flush).await;
        if !file.lifecycle.end() {
            // On every rank: none has closed it without the others.
            return Err(Error::new(ErrorClass::File, "the file has been closed before"));
        }
        let agreed = close_driver(&file, local, &tags, &last).await;
        let deletes = file.amode().has(Amode::DELETE_ON_CLOSE);
        let deleted = if deletes { delete(&file, &tags).await } else { Ok(()) };
        let sealed = match &agreed {
            Ok(told) if !deletes => file.conversion.seal(told, &seal).await,
            _ => Ok(None),
        };
        let told = sealed.as_ref().ok().and_then(|told| told.as_deref());
        file.account.report(&tags, told).await;
        file.lifecycle.leave_lane(&agreed);
        agreed.map(drop).and(deleted).and(sealed.map(drop))
    }
}

/// Stores the buffered writes of all ranks; an active split operation ends before.
async fn flush_all(file: &File, flush: SettlingFlush) -> Result<()> {
    let local = file.split.end_unfinished().await;
    let flushed = flush.run().await;
    let flushed = flushed.map_err(|error| file.write_behind.save_or_lose(error));
    file.write_behind.stop_answering();
    local.and(flushed)
}

/// Closes the file on each rank; `local` is this rank's result before. Returns the messages of all
/// ranks about the conversion.
async fn close_driver(
    file: &File,
    local: Result<()>,
    tags: &TagBlock,
    last: &TagBlock,
) -> Result<Vec<Words>> {
    let (transport, driver) = (&*file.transport, &**file.driver());
    let sealing = SetConversion::request(driver);
    file.storage.small().leave();
    let local = local.and(file.lifecycle.close_here(driver));
    let is_open = file.lifecycle.completes(driver);
    let met = meet_with_news(transport, tags, Kind::Close, sealing, local, is_open).await;
    // No rank sends flush requests any more.
    file.write_behind.stop_serving_nodes();
    file.write_behind.withdraw();
    let (agreed, completes) = match met {
        Ok((all, completes)) => (Ok(all), completes),
        Err(error) => (Err(error), false),
    };
    let closed = file.lifecycle.close_last(driver, &agreed);
    match completes {
        true => meet(transport, last, Kind::Close, [0; 4], closed).await.and(agreed),
        // No rank completes the file in its last close, so there is no further error.
        false => agreed,
    }
}

/// Deletes the file on one rank.
async fn delete(file: &File, tags: &TagBlock) -> Result<()> {
    let transport = &*file.transport;
    let delete = || {
        let deleted = file.lifecycle.delete(file.engine.drivers(), transport.rank());
        deleted.map(|()| [0; 4])
    };
    from_rank(transport, tags, file.leader, delete).await.map(drop)
}

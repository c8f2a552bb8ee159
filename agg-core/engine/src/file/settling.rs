//! The flush before an operation that returns when it is done on all ranks: it also settles views
//! set without a meeting.

use super::File;
use super::agreement::{Kind, meet_with_news, step};
use super::write_behind::Flush;
use aggio_base::error::Result;
use aggio_comm::tags::TagBlock;
use std::sync::Arc;

/// A flush that also settles views.
pub(super) struct SettlingFlush {
    file: Arc<File>,
    flush: Option<Flush>,
    /// The tags of the meeting that settles views set without one, if there were any.
    settles: Option<TagBlock>,
}

impl SettlingFlush {
    /// Takes the place of the flush among those of other calls, if writes are buffered.
    pub(super) fn new(file: &Arc<File>) -> Self {
        let may_move = file.atomic.meets_in_memory(&*file.transport);
        let flush = file.write_behind.flush_tags(&file.tags, may_move);
        let settles = flush.is_some() && file.views.takes_unmet();
        let settles = settles.then(|| file.tags.next());
        Self { file: file.clone(), flush, settles }
    }

    /// Settles the views, and writes the buffered writes of all ranks.
    ///
    /// # Errors
    /// The system's error, on every rank; then all writes stay buffered.
    pub(super) async fn run(self) -> Result<()> {
        let Self { file, mut flush, settles } = self;
        if let (Some(tags), Some(flush)) = (settles, &mut flush) {
            file.write_behind.drain_others();
            settle_views(&file, &tags).await?;
            flush.set_map(file.storage.format().map());
        }
        file.write_behind.flush(flush).await
    }
}

/// Settles hints and findings about the format left open by views set without a meeting.
/// Collective.
///
/// # Errors
/// The same on every rank, if they are in different operations.
async fn settle_views(file: &File, tags: &TagBlock) -> Result<()> {
    let hints = file.views.requested_hints();
    let (transport, words) = (&*file.transport, [hints.digest, 0, 0, 0]);
    let format = file.storage.format();
    let news = format.has_news();
    let (all, news) = meet_with_news(transport, tags, Kind::Flush, words, Ok(()), news).await?;
    if news {
        format.share_news(transport, tags.tag(step::NEWS)).await?;
    }
    file.take_agreed(hints.agree(transport, &all, 0, tags, file.path()).await?);
    Ok(())
}

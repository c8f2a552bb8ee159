//! A change of the size of an open file: one rank makes it, and every rank receives the result.

use super::File;
use super::agreement::{Kind, from_rank, meet, same_everywhere};
use super::settling::SettlingFlush;
use crate::Direction;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use std::sync::Arc;

/// A size to set, or to reserve.
pub(super) struct Resize {
    file: Arc<File>,
    kind: Kind,
    size: i64,
    flush: SettlingFlush,
    tags: TagBlock,
}

impl Resize {
    /// Starts a change of this kind, [`Kind::SetSize`] or [`Kind::Preallocate`].
    pub(super) fn start(
        file: &Arc<File>,
        kind: Kind,
        operation: &'static str,
        size: i64,
    ) -> BoxFuture<'static, Result<()>> {
        let (file, flush) = (file.clone(), SettlingFlush::new(file));
        let tags = file.tags.next();
        let resize = Self { file: file.clone(), kind, size, flush, tags };
        Box::pin(async move { resize.run().await.map_err(|error| file.context(error, operation)) })
    }

    async fn run(self) -> Result<()> {
        let Self { file, kind, size, flush, tags } = self;
        let flushed = flush.run().await;
        let checked = check(&file, size).and(flushed);
        let words = [size.cast_unsigned(), 0, 0, 0];
        let all = meet(&*file.transport, &tags, kind, words, checked).await?;
        same_everywhere(&all, ErrorClass::Arg, "the size")?;
        let done = from_rank(&*file.transport, &tags, file.leader, || {
            file.storage.note_written();
            file.storage.count_other();
            let size = u64::try_from(size).unwrap_or(0);
            match kind {
                Kind::SetSize => file.driver().set_size(size)?,
                _ => file.driver().preallocate(size)?,
            }
            Ok([size, 0, 0, 0])
        })
        .await;
        file.storage.small().changed();
        done?;
        if kind == Kind::SetSize {
            file.driver().was_resized(size.cast_unsigned());
            file.storage.format().truncate(size.cast_unsigned());
        }
        Ok(())
    }
}

fn check(file: &File, size: i64) -> Result<()> {
    file.lifecycle.check_open()?;
    file.views.amode().check_not_sequential()?;
    file.views.amode().check_access(Direction::Write)?;
    if size < 0 {
        return Err(Error::new(ErrorClass::Arg, format!("size {size} is negative")));
    }
    Ok(())
}

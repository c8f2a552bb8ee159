//! Seeking and asking for positions.
//!
//! Both pointers count etypes of the view. An operation moves its pointer by the *requested* amount
//! when it is called (MPI-4.1, 14.4.3), so that short reads change nothing and operations in
//! progress at the same time have disjoint ranges.

use super::agreement::{Kind, from_rank, meet, same_everywhere};
use super::{Direction, File, Position, Whence};
use aggio_base::error::{ErrorClass, Result};
use aggio_comm::task::BoxFuture;
use std::sync::Arc;

impl File {
    /// Moves this rank's file pointer to `offset` etypes from `whence`.
    ///
    /// # Errors
    /// `Arg` if the new position is negative or beyond the largest file offset; the pointer is
    /// unchanged. `UnsupportedOperation` if the file was opened SEQUENTIAL.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.check_seekable()?;
        let end = if whence == Whence::End { self.size()? } else { 0 };
        self.views.seek(offset, whence, end)
    }

    /// This rank's file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the file was opened SEQUENTIAL.
    pub fn position(&self) -> Result<i64> {
        self.check_seekable()?;
        self.views.position()
    }

    /// Takes the range of a call of this rank alone that is carried out in pieces at explicit
    /// offsets; returns the etype at which it starts.
    ///
    /// # Errors
    /// That of a call which takes the range at once; the file pointer is then unchanged.
    pub fn claim(&self, direction: Direction, position: Position, len: u64) -> Result<i64> {
        self.lifecycle.check_open()?;
        self.views.claim_range(direction, position, len)
    }

    /// The file's byte at which etype `offset` of the view starts.
    ///
    /// # Errors
    /// `Arg` if the offset is negative or beyond the largest file offset; `UnsupportedOperation` if
    /// the file was opened SEQUENTIAL.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.check_seekable()?;
        self.views.byte_offset(offset)
    }

    /// Moves the shared file pointer; collective, with equal arguments on all ranks.
    ///
    /// # Errors
    /// As [`File::seek`], and `Arg` if the arguments differ; the same error on every rank.
    pub fn seek_shared(
        self: &Arc<Self>,
        offset: i64,
        whence: Whence,
    ) -> BoxFuture<'static, Result<()>> {
        let (file, tags) = (self.clone(), self.tags.next());
        Box::pin(async move {
            let words = [offset.cast_unsigned(), whence as u64, 0, 0];
            let checked = file.check_seekable();
            let all = meet(&*file.transport, &tags, Kind::SeekShared, words, checked).await?;
            same_everywhere(&all, ErrorClass::Arg, "offset or whence")?;
            let asked = match whence {
                Whence::End => file.write_behind.ask(Direction::Read, None).await,
                Whence::Start | Whence::Current => Ok(()),
            };
            from_rank(&*file.transport, &tags, file.leader, || {
                asked?;
                let end = if whence == Whence::End { file.size()? } else { 0 };
                Ok([file.views.seek_shared(offset, whence, end)?, 0, 0, 0])
            })
            .await?;
            file.views.note_shared_moved();
            Ok(())
        })
    }

    /// The shared file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the file was opened SEQUENTIAL, or if the ranks share no state.
    pub fn position_shared(&self) -> Result<i64> {
        self.check_seekable()?;
        self.views.position_shared()
    }

    fn check_seekable(&self) -> Result<()> {
        self.lifecycle.check_open()?;
        self.views.amode().check_not_sequential()
    }
}

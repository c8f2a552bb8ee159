//! File pointers: claiming a range for an operation, seeking, asking.
//!
//! Both pointers count etypes of the view. An operation moves its pointer by the *requested* amount
//! when it is called (MPI-4.1, 14.4.3), so that short reads change nothing and operations in
//! progress at the same time have disjoint ranges.

use super::agreement::{Kind, from_rank, meet, same_everywhere};
use super::{Direction, File};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::task::BoxFuture;
use aggio_comm::transport::SharedPointer;
use aggio_types::view::View;
use std::sync::Arc;

/// The origin of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whence {
    /// The start of the view.
    Start,
    /// The file pointer.
    Current,
    /// The first etype of the view that lies behind the end of the file.
    End,
}

impl File {
    /// Moves this rank's file pointer to `offset` etypes from `whence`.
    ///
    /// # Errors
    /// `Arg` if the new position is negative or beyond the largest file offset; the pointer is
    /// unchanged. `UnsupportedOperation` if the file was opened SEQUENTIAL.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.check_seekable()?;
        let end = if whence == Whence::End { self.size()? } else { 0 };
        let mut state = self.state();
        let target = target(&state.view, whence, state.individual, end, offset)?;
        state.individual = target;
        Ok(())
    }

    /// This rank's file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the file was opened SEQUENTIAL.
    pub fn position(&self) -> Result<i64> {
        self.check_seekable()?;
        to_offset(self.state().individual)
    }

    /// The file's byte at which etype `offset` of the view starts.
    ///
    /// # Errors
    /// `Arg` if the offset is negative or beyond the largest file offset; `UnsupportedOperation` if
    /// the file was opened SEQUENTIAL.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.check_seekable()?;
        let etypes = u64::try_from(offset)
            .map_err(|_| Error::new(ErrorClass::Arg, format!("offset {offset} is negative")))?;
        to_offset(byte_of(&self.state().view, etypes)?)
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
                let shared = file.shared_pointer()?;
                let end = if whence == Whence::End { file.size()? } else { 0 };
                let number = file.state().turns.pointer();
                let current = u64::try_from(shared.load(number)?).unwrap_or(0);
                let target = target(&file.view(), whence, current, end, offset)?;
                shared.store(number, to_offset(target)?)?;
                Ok([target, 0, 0, 0])
            })
            .await?;
            file.state().turns.note_moved();
            Ok(())
        })
    }

    /// The shared file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the file was opened SEQUENTIAL, or if the ranks share no state.
    pub fn position_shared(&self) -> Result<i64> {
        self.check_seekable()?;
        self.position_of_all()
    }

    /// The shared file pointer.
    pub(super) fn position_of_all(&self) -> Result<i64> {
        let number = self.state().turns.pointer();
        self.shared_pointer()?.load(number)
    }

    fn check_seekable(&self) -> Result<()> {
        self.check_open()?;
        self.check_not_sequential()
    }

    pub(super) fn shared_pointer(&self) -> Result<&Arc<dyn SharedPointer>> {
        self.pointer.as_ref().ok_or_else(|| {
            let text = "the ranks of this file cannot share a file pointer";
            Error::new(ErrorClass::UnsupportedOperation, text)
        })
    }

    /// Takes the next `etypes` at this rank's file pointer; returns where they start.
    pub(super) fn claim_individual(&self, etypes: u64) -> Result<u64> {
        let mut state = self.state();
        let start = state.individual;
        state.individual = start.checked_add(etypes).filter(fits).ok_or_else(too_far)?;
        Ok(start)
    }

    /// Takes the next `etypes` at the shared file pointer; returns where they start.
    pub(super) fn claim_shared(&self, etypes: u64) -> Result<u64> {
        let number = {
            let mut state = self.state();
            state.turns.note_moved();
            state.turns.pointer()
        };
        let start = self.shared_pointer()?.fetch_add(number, to_offset(etypes)?)?;
        u64::try_from(start).map_err(|_| too_far())
    }
}

/// The etype that a seek leads to.
fn target(view: &View, whence: Whence, current: u64, end: u64, offset: i64) -> Result<u64> {
    let base = match whence {
        Whence::Start => 0,
        Whence::Current => current,
        Whence::End => etypes_before(view, end),
    };
    base.checked_add_signed(offset).filter(fits).ok_or_else(|| {
        Error::new(ErrorClass::Arg, format!("seek by {offset} etypes from etype {base}"))
    })
}

/// The number of etypes of the view that start below byte `end` of the file.
fn etypes_before(view: &View, end: u64) -> u64 {
    match view.etype_size() {
        0 => 0,
        size => view.data_before(end).div_ceil(size),
    }
}

/// The file's byte at which etype `etypes` of the view starts.
pub(super) fn byte_of(view: &View, etypes: u64) -> Result<u64> {
    let position = etypes.checked_mul(view.etype_size()).filter(fits).ok_or_else(too_far)?;
    Ok(view.offset_at(position))
}

fn fits(position: &u64) -> bool {
    i64::try_from(*position).is_ok()
}

fn to_offset(position: u64) -> Result<i64> {
    i64::try_from(position).map_err(|_| too_far())
}

fn too_far() -> Error {
    Error::new(ErrorClass::Arg, "the position lies beyond what a file can hold")
}

//! File pointers: claiming a range for an operation, seeking, asking.
//!
//! Both pointers count etypes of the view. An operation moves its pointer by the *requested* amount
//! when it is called (MPI-4.1, 14.4.3), so that short reads change nothing and operations in
//! progress at the same time have disjoint ranges.

use super::ViewState;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::transport::{POINTERS, SharedPointer};
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

impl ViewState {
    /// Moves this rank's file pointer to `offset` etypes from `whence`; the file ends at byte
    /// `end`.
    ///
    /// # Errors
    /// `Arg` if the new position is negative or beyond the largest file offset; the pointer is
    /// unchanged.
    pub(in crate::file) fn seek(&self, offset: i64, whence: Whence, end: u64) -> Result<()> {
        let mut state = self.state();
        let target = target(&state.view, whence, state.individual, end, offset)?;
        state.individual = target;
        Ok(())
    }

    /// This rank's file pointer, in etypes of the view.
    pub(in crate::file) fn position(&self) -> Result<i64> {
        to_offset(self.state().individual)
    }

    /// The file's byte at which etype `offset` of the view starts.
    ///
    /// # Errors
    /// `Arg` if the offset is negative or beyond the largest file offset.
    pub(in crate::file) fn byte_offset(&self, offset: i64) -> Result<i64> {
        let etypes = u64::try_from(offset)
            .map_err(|_| Error::new(ErrorClass::Arg, format!("offset {offset} is negative")))?;
        to_offset(byte_of(&self.state().view, etypes)?)
    }

    /// Moves the shared file pointer, on one rank for all, as [`ViewState::seek`]; returns its new
    /// position.
    ///
    /// # Errors
    /// As [`ViewState::seek`]; `UnsupportedOperation` if the ranks share no state.
    pub(in crate::file) fn seek_shared(
        &self,
        offset: i64,
        whence: Whence,
        end: u64,
    ) -> Result<u64> {
        let shared = self.shared_pointer()?;
        let number = self.state().deferred.pointer();
        let current = u64::try_from(shared.load(number)?).unwrap_or(0);
        let target = target(&self.view(), whence, current, end, offset)?;
        shared.store(number, to_offset(target)?)?;
        Ok(target)
    }

    /// The shared file pointer was moved for all ranks.
    pub(in crate::file) fn note_shared_moved(&self) {
        self.state().deferred.note_moved();
    }

    /// The shared file pointers that this rank has moved, a bit each.
    pub(in crate::file) fn shared_moved(&self) -> u64 {
        self.state().deferred.moved()
    }

    /// Sets the first shared file pointer to 0, and those that any rank has `moved`; on one rank
    /// for all.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the ranks share no state.
    pub(in crate::file) fn reset_shared(&self, moved: u64) -> Result<()> {
        let shared = self.shared_pointer()?;
        let is_dirty = |number: &u32| moved >> number & 1 == 1 || *number == 0;
        (0..POINTERS).filter(is_dirty).try_for_each(|number| shared.store(number, 0))
    }

    /// The shared file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the ranks share no state.
    pub(in crate::file) fn position_shared(&self) -> Result<i64> {
        let number = self.state().deferred.pointer();
        self.shared_pointer()?.load(number)
    }

    /// `view` from the byte on that the shared file pointer is at.
    pub(in crate::file) fn moved_to_current(&self, view: &View) -> Result<View> {
        let etypes = u64::try_from(self.position_shared()?).unwrap_or(0);
        let byte = byte_of(&self.view(), etypes)?;
        let (etype, filetype) = (view.etype().clone(), view.filetype().clone());
        View::new(byte, etype, filetype, view.representation().clone(), self.amode.is_writable())
    }

    /// Takes the next `etypes` at this rank's file pointer; returns where they start.
    pub(super) fn claim_individual(&self, etypes: u64) -> Result<u64> {
        let mut state = self.state();
        let start = state.individual;
        state.individual = start.checked_add(etypes).filter(fits).ok_or_else(too_far)?;
        Ok(start)
    }

    /// Takes the next `etypes` at the shared file pointer; returns where they start.
    pub(in crate::file) fn claim_shared(&self, etypes: u64) -> Result<u64> {
        let number = self.state().deferred.note_moved();
        let start = self.shared_pointer()?.fetch_add(number, to_offset(etypes)?)?;
        u64::try_from(start).map_err(|_| too_far())
    }

    fn shared_pointer(&self) -> Result<&Arc<dyn SharedPointer>> {
        self.shared.as_ref().ok_or_else(|| {
            let text = "the ranks of this file cannot share a file pointer";
            Error::new(ErrorClass::UnsupportedOperation, text)
        })
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
fn byte_of(view: &View, etypes: u64) -> Result<u64> {
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

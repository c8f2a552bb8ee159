//! Checks of a data call, and the range of the file that it takes.

use super::{State, ViewState};
use crate::Direction;
use crate::file::Amode;
use crate::file::call::{Call, Position};
use crate::file::convert::len_in_file;
use crate::file::request::{Request, position_of, whole_etypes};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_config::hints::Switch;
use aggio_plan::format::Map;
use aggio_types::view::Representation;
use std::sync::Arc;

/// A run of bytes that a call has taken, by the file byte it starts at.
pub(in crate::file) struct Run {
    pub(in crate::file) offset: u64,
    /// In atomic mode.
    pub(in crate::file) atomic: bool,
}

impl ViewState {
    /// Checks a call and takes its range of the file; one in the order of several
    /// ranks gets its position later.
    ///
    /// # Errors
    /// That of the arguments, or of a view set without the others.
    pub(in crate::file) fn claim(
        &self,
        call: Call,
        atomic: bool,
        map: Option<Arc<dyn Map>>,
    ) -> Result<Request> {
        let position = call.position;
        let (mut request, etypes) = self.check(call, atomic, map)?;
        let first = match position {
            Position::Explicit(offset) => u64::try_from(offset)
                .map_err(|_| Error::new(ErrorClass::Arg, format!("offset {offset} is negative")))?,
            Position::Individual => self.claim_individual(etypes)?,
            Position::Ordered if self.transport.size() > 1 => return Ok(request),
            Position::Shared | Position::Ordered => self.claim_shared(etypes)?,
        };
        request.at(first)?;
        Ok(request)
    }

    /// Checks everything that does not depend on the position; also returns the length in etypes.
    fn check(&self, call: Call, atomic: bool, map: Option<Arc<dyn Map>>) -> Result<(Request, u64)> {
        self.state().deferred.check()?;
        let (direction, memory) = (call.direction, call.memory?);
        self.amode.check_access(direction)?;
        if matches!(call.position, Position::Explicit(_) | Position::Individual) {
            self.amode.check_not_sequential()?;
        }
        let state = self.state();
        let view = state.view.clone();
        let len = len_in_file(&memory, view.representation())?;
        let etypes = whole_etypes(len, view.etype_size())?;
        let hints = state.hints.hints.clone();
        Ok((Request { direction, view, memory, position: 0, len, hints, atomic, map }, etypes))
    }

    /// Takes the range of `len` bytes for a call of this rank alone.
    ///
    /// # Errors
    /// As for such a call; `UnsupportedOperation` for the shared file pointer.
    pub(in crate::file) fn claim_range(
        &self,
        direction: Direction,
        position: Position,
        len: u64,
    ) -> Result<i64> {
        self.amode.check_access(direction)?;
        self.amode.check_not_sequential()?;
        let mut state = self.state();
        state.deferred.check()?;
        let etypes = whole_etypes(len, state.view.etype_size())?;
        let first = match position {
            Position::Explicit(offset) => u64::try_from(offset)
                .map_err(|_| Error::new(ErrorClass::Arg, format!("offset {offset} is negative")))?,
            Position::Individual => state.individual,
            Position::Shared | Position::Ordered => {
                let text = "a range at the shared file pointer has no offset";
                return Err(Error::new(ErrorClass::UnsupportedOperation, text));
            }
        };
        position_of(&state.view, first, len)?;
        if position == Position::Individual {
            state.individual = first + etypes;
        }
        i64::try_from(first).map_err(|_| Error::new(ErrorClass::Arg, "beyond any file"))
    }

    /// Takes the range of a call that needs no plan: one run of bytes in memory and in the file.
    /// `None` if it needs one, or if anything is wrong with it: then nothing has happened.
    pub(in crate::file) fn claim_run(&self, call: &Call, atomic: bool) -> Option<Run> {
        let memory = call.memory.as_ref().ok()?;
        let len = memory.len();
        let is_permitted = match call.direction {
            Direction::Read => self.amode.is_readable(),
            Direction::Write => self.amode.is_writable(),
        } && !self.amode.has(Amode::SEQUENTIAL);
        let is_locked = atomic && self.transport.size() > 1;
        if !is_permitted || is_locked || len == 0 || !memory.is_contiguous() {
            return None;
        }
        let mut state = self.state();
        state.deferred.check().ok()?;
        if !state.shows_plain_bytes() || state.sieves(call.direction) {
            return None;
        }
        let etypes = whole_etypes(len, state.view.etype_size()).ok()?;
        let first = match call.position {
            Position::Explicit(offset) => u64::try_from(offset).ok()?,
            Position::Individual => state.individual,
            Position::Shared | Position::Ordered => return None,
        };
        let position = position_of(&state.view, first, len).ok()?;
        if call.position == Position::Individual {
            state.individual = first + etypes;
        }
        Some(Run { offset: state.view.offset_at(position), atomic })
    }
}

impl State {
    /// The view shows bytes in a row, as they are in memory.
    fn shows_plain_bytes(&self) -> bool {
        let view = &*self.view;
        let plain = [Representation::Native, Representation::Internal];
        plain.contains(view.representation()) && view.is_contiguous() && !view.is_empty()
    }

    /// An access in this direction sieves, under a lock.
    fn sieves(&self, direction: Direction) -> bool {
        let sieves = self.hints.hints.romio_ds_write == Switch::Enable;
        sieves && direction == Direction::Write
    }
}

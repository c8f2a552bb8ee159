//! A data call that passed all checks.

use super::convert::Stream;
use crate::Direction;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_config::hints::Hints;
use aggio_plan::format::Map;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::Arc;

/// Bytes up to which a transfer costs less than handing it over.
const SMALL: u64 = 4096;

/// A call that passed all checks, with its own copy of the file's state at that time.
pub(super) struct Request {
    pub(super) direction: Direction,
    pub(super) view: Arc<View>,
    pub(super) memory: Memory,
    /// First byte of the view's data.
    pub(super) position: u64,
    /// Bytes in the file's representation.
    pub(super) len: u64,
    pub(super) hints: Arc<Hints>,
    pub(super) atomic: bool,
    /// The file's map agreed on by all ranks when they made the call.
    pub(super) map: Option<Arc<dyn Map>>,
}

impl Request {
    /// Whether a call of this rank alone can leave the program's threads and is long enough for it.
    /// In atomic mode calls of one rank take effect one after the other.
    pub(super) fn is_worth_a_worker(&self) -> bool {
        self.len > SMALL && !self.atomic
    }

    /// The length, a whole number of etypes of the view.
    pub(super) fn etypes(&self) -> u64 {
        self.len.checked_div(self.view.etype_size()).unwrap_or(0)
    }

    /// The file bytes from the first to the last.
    pub(super) fn span(&self) -> Extent {
        if self.len == 0 { Extent::default() } else { self.view.span(self.position, self.len) }
    }

    pub(super) fn stream(&self) -> Result<Stream> {
        Stream::new(&self.memory, self.view.representation(), self.direction)
    }

    /// Places the request at etype `first` of its view.
    ///
    /// # Errors
    /// `Arg` if it would end beyond the largest file offset.
    pub(super) fn at(&mut self, first: u64) -> Result<()> {
        self.position = position_of(&self.view, first, self.len)?;
        Ok(())
    }
}

/// The data byte of `view` at which `len` bytes from etype `first` on start.
///
/// # Errors
/// `Arg` if they would end beyond the largest file offset.
pub(super) fn position_of(view: &View, first: u64, len: u64) -> Result<u64> {
    let position = first.checked_mul(view.etype_size());
    let fits =
        |position: &u64| position.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok());
    position.filter(fits).ok_or_else(|| {
        let text = format!("{len} bytes at etype {first} are beyond any file");
        Error::new(ErrorClass::Arg, text)
    })
}

/// The number of etypes in `len` bytes.
pub(super) fn whole_etypes(len: u64, etype: u64) -> Result<u64> {
    if len == 0 {
        return Ok(0);
    }
    match len.checked_rem(etype) {
        Some(0) => Ok(len / etype),
        _ => {
            let text = format!("{len} bytes are no whole number of etypes of {etype} bytes");
            Err(Error::new(ErrorClass::Io, text))
        }
    }
}

//! The one file that a set stands for, for the engine.

use crate::Logical;
use crate::error::Error as FormatError;
use agg_core::blob::{ReadOnlyFile, Take};
use agg_core::{Error, ErrorClass, Extent, Result};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Turns an error of a set into one of the engine; without a number of the system's it is `EIO`.
#[must_use]
pub fn told(why: &FormatError) -> Error {
    Error::new(ErrorClass::of_errno(why.number()), why.to_string()).with_errno(why.number())
}

/// An open set, and where it is.
pub struct OneFile(pub Logical);

impl fmt::Debug for OneFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OneFile").field(&Path::new(self.0.name())).finish()
    }
}

impl ReadOnlyFile for OneFile {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buffer, offset).map_err(|why| told(&why))
    }

    fn owned(&self, take: &mut Take<'_>) -> Result<()> {
        match self.0.written() {
            Some(written) => {
                written.owned().try_for_each(|one| take(extent(&one.range), one.writer))
            }
            None => take(Extent::new(0, self.size()), 0),
        }
    }
}

fn extent(range: &Range<u64>) -> Extent {
    Extent::between(range.start, range.end)
}

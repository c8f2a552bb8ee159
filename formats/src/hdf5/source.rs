//! Where the bytes of an HDF5 file come from.

use crate::error::Result;
use crate::files::Files;

/// The bytes of one file.
pub trait Source {
    /// The name that a user knows the file by.
    fn name(&self) -> String;

    /// Bytes of the file.
    ///
    /// # Errors
    ///
    /// If it is missing, or the system refuses.
    fn size(&self) -> Result<u64>;

    /// Fills a buffer from `offset` on.
    ///
    /// # Errors
    ///
    /// If the file ends before, or the system refuses.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
}

/// One file of a list, by its position.
pub struct OneOf<'a>(pub &'a dyn Files, pub usize);

impl Source for OneOf<'_> {
    fn name(&self) -> String {
        self.0.name(self.1)
    }

    fn size(&self) -> Result<u64> {
        self.0.size(self.1)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.0.read(self.1, buffer, offset)
    }
}

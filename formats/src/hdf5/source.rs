//! Where the bytes of an HDF5 file come from.

use crate::error::{Error, Kind, Result};
use crate::files::Files;
use crate::logical::Logical;

/// The bytes of one file.
pub trait Source {
    /// The name of the file as users see it.
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

/// A file that consists of others.
impl Source for Logical {
    fn name(&self) -> String {
        Logical::name(self).to_owned()
    }

    fn size(&self) -> Result<u64> {
        Ok(Logical::size(self))
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        if self.read_at(buffer, offset)? == buffer.len() {
            return Ok(());
        }
        let what = format!("ends before its data do, behind byte {offset}");
        Err(Error::new(Logical::name(self), Kind::Truncated, what))
    }
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

/// The first file of a list, which is its own.
pub struct OnlyFile<F>(pub F);

impl<F: Files> Source for OnlyFile<F> {
    fn name(&self) -> String {
        self.0.name(0)
    }

    fn size(&self) -> Result<u64> {
        self.0.size(0)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.0.read(0, buffer, offset)
    }
}

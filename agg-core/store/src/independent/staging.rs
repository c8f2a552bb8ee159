//! The bounded buffer between scattered memory and the file.

use aggio_base::{Error, ErrorClass, Result};

/// A buffer that grows on demand, up to a limit.
#[derive(Debug)]
pub(super) struct Staging {
    limit: usize,
    bytes: Vec<u8>,
}

impl Staging {
    /// A buffer of at most `limit` bytes, nothing of it allocated yet.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit: usize::try_from(limit.max(1)).unwrap_or(usize::MAX), bytes: Vec::new() }
    }

    /// The limit in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The first `len` bytes of the buffer (at most the limit), with any content.
    /// `ErrorClass::NoMem` if there is no memory for it.
    pub(super) fn get(&mut self, len: usize) -> Result<&mut [u8]> {
        let len = len.min(self.limit);
        if self.bytes.len() < len {
            let size = len.checked_next_power_of_two().unwrap_or(len).min(self.limit);
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(size).map_err(|_| {
                Error::new(ErrorClass::NoMem, format!("no memory for a buffer of {size} bytes"))
            })?;
            bytes.resize(size, 0);
            self.bytes = bytes;
        }
        Ok(&mut self.bytes[..len])
    }
}

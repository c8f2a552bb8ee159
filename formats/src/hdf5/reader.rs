//! Reads metadata by address: bounded by the file's size and by a budget, with checksums verified.

use super::cursor::{Cursor, Widths};
use super::lookup3::checksum;
use super::source::Source;
use crate::error::{Error, Kind, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Largest piece of metadata.
const MOST_BYTES: u64 = 16 << 20;
/// What a step costs besides its bytes.
const STEP: u64 = 16;
/// Bytes that even an empty file may cost, and what the largest may.
const BUDGET: (u64, u64) = (16 << 20, 4 << 30);

/// The metadata of one file.
pub(super) struct Reader<'a> {
    source: &'a dyn Source,
    size: u64,
    /// Where addresses count from: the bytes of the user block.
    pub(super) base: u64,
    pub(super) widths: Widths,
    /// Bytes that may still be read. What loops ends here at the latest.
    budget: Cell<u64>,
    /// Metadata that was found: place in the file, bytes.
    found: RefCell<BTreeMap<u64, u64>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a dyn Source) -> Result<Self> {
        let size = source.size()?;
        let budget = size.saturating_mul(4).saturating_add(BUDGET.0).min(BUDGET.1);
        Ok(Reader {
            source,
            size,
            base: 0,
            widths: Widths { offset: 8, length: 8 },
            budget: Cell::new(budget),
            found: RefCell::default(),
        })
    }

    /// Bytes of the file, the user block included.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn error(&self, kind: Kind, what: impl Display) -> Error {
        Error::new(self.source.name(), kind, format!("HDF5: {what}"))
    }

    pub(super) fn corrupt(&self, what: impl Display) -> Error {
        self.error(Kind::Corrupt, what)
    }

    pub(super) fn unsupported(&self, what: impl Display) -> Error {
        self.error(Kind::Unsupported, what)
    }

    /// Pays for a step of work.
    pub(super) fn step(&self, bytes: u64) -> Result<()> {
        let left = self.budget.get().checked_sub(bytes.saturating_add(STEP));
        let left = left.ok_or_else(|| {
            self.corrupt("its metadata form a loop, or exceed the limit for a file of this size")
        });
        self.budget.set(left?);
        Ok(())
    }

    /// Where an address lies in the file, if so many bytes are there.
    pub(super) fn place(&self, what: &str, address: u64, count: u64) -> Result<u64> {
        let place = address.checked_add(self.base);
        let end = place.and_then(|place| place.checked_add(count));
        match (place, end.filter(|end| *end <= self.size)) {
            (Some(place), Some(_)) => Ok(place),
            _ => {
                let size = self.size;
                let what = format!("{what}: {count} bytes at {address}, the file has {size}");
                Err(self.error(Kind::Truncated, what))
            }
        }
    }

    /// So many bytes at an address.
    pub(super) fn bytes(&self, what: &str, address: u64, count: u64) -> Result<Vec<u8>> {
        self.step(count)?;
        let place = self.place(what, address, count)?;
        if count > MOST_BYTES {
            return Err(self.unsupported(format!("{what} at {address} has {count} bytes")));
        }
        let mut bytes = vec![0; count as usize];
        self.source.read(&mut bytes, place)?;
        Ok(bytes)
    }

    /// As many of the bytes at an address as there are, at most `count`.
    pub(super) fn up_to(&self, what: &str, address: u64, count: u64) -> Result<Vec<u8>> {
        let place = self.place(what, address, 0)?;
        self.bytes(what, address, count.min(self.size - place))
    }

    /// A block that begins with a signature and ends with a checksum: what is between them.
    pub(super) fn block(
        &self,
        what: &str,
        address: u64,
        count: u64,
        signature: &[u8; 4],
    ) -> Result<Vec<u8>> {
        let mut bytes = self.bytes(what, address, count)?;
        if bytes.len() < 8 || bytes[..4] != *signature {
            return Err(self.corrupt(format!("no {what} at {address}")));
        }
        let end = bytes.len() - 4;
        self.verify(what, address, &bytes[..end], &bytes[end..])?;
        bytes.truncate(end);
        bytes.drain(..4);
        self.note(address, count);
        Ok(bytes)
    }

    /// Compares a checksum with the one of the bytes.
    pub(super) fn verify(
        &self,
        what: &str,
        address: u64,
        bytes: &[u8],
        stored: &[u8],
    ) -> Result<()> {
        if *stored == checksum(bytes).to_le_bytes() {
            return Ok(());
        }
        Err(self.corrupt(format!("{what} at {address}: its checksum is wrong")))
    }

    /// The numbers in some bytes.
    pub(super) fn cursor<'b>(&self, bytes: &'b [u8]) -> Cursor<'b> {
        Cursor::new(bytes, self.widths)
    }

    /// Remembers that bytes are metadata.
    pub(super) fn note(&self, address: u64, count: u64) {
        let Some(place) = address.checked_add(self.base) else { return };
        let mut found = self.found.borrow_mut();
        let known = found.entry(place).or_default();
        *known = (*known).max(count.min(self.size.saturating_sub(place)));
    }

    /// All metadata that was found until now: place in the file, bytes.
    pub(super) fn noted(&self) -> Vec<(u64, u64)> {
        self.found.borrow().iter().map(|(place, count)| (*place, *count)).collect()
    }
}

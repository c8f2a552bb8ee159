//! Reads metadata by address: bounded by the file's size and by limits, with checksums verified.

use super::cursor::{Cursor, Widths};
use super::lookup3::checksum;
use super::source::Source;
use crate::error::{Error, Kind, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Largest piece of metadata.
const MOST_BYTES: u64 = 16 << 20;
/// The cost of a step besides its bytes.
const STEP: u64 = 16;
/// Bytes that may be read, steps included: for any file, and for each byte of metadata found.
const WORK: (u64, u64) = (8 << 20, 16);
/// Bytes of memory that results may take: for any file, and for each byte of metadata found.
const MEMORY: (u64, u64) = (12 << 20, 12);
/// Bytes of memory that it takes to remember a place, here and in a set of places seen.
const NOTE: u64 = 64;

/// A limit of use; the more metadata a file has, the higher it is.
struct Limit {
    of: (u64, u64),
    used: Cell<u64>,
    /// The limit according to the metadata that were found when it was reached last.
    allowed: Cell<u64>,
}

impl Limit {
    fn new(of: (u64, u64)) -> Self {
        Limit { of, used: Cell::new(0), allowed: Cell::new(of.0) }
    }

    /// Whether so much more may be used.
    fn take(&self, amount: u64, metadata: impl Fn() -> u64) -> bool {
        let used = self.used.get().saturating_add(amount);
        if used > self.allowed.get() {
            let more = metadata().saturating_mul(self.of.1);
            self.allowed.set(self.allowed.get().max(self.of.0.saturating_add(more)));
        }
        let fits = used <= self.allowed.get();
        // Once refused, everything is refused.
        self.used.set(if fits { used } else { u64::MAX });
        fits
    }
}

/// The metadata of one file.
pub(super) struct Reader<'a> {
    source: &'a dyn Source,
    size: u64,
    /// Where addresses count from: the bytes of the user block.
    pub(super) base: u64,
    pub(super) widths: Widths,
    /// Ends loops in the metadata.
    work: Limit,
    memory: Limit,
    verifies: bool,
    /// Metadata that was found: place in the file, bytes.
    found: RefCell<BTreeMap<u64, u64>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a dyn Source) -> Result<Self> {
        Ok(Reader {
            size: source.size()?,
            source,
            base: 0,
            widths: Widths { offset: 8, length: 8 },
            work: Limit::new(WORK),
            memory: Limit::new(MEMORY),
            verifies: true,
            found: RefCell::default(),
        })
    }

    /// The same, with checksums taken for right.
    pub(super) fn trusting(source: &'a dyn Source) -> Result<Self> {
        Ok(Reader { verifies: false, ..Self::new(source)? })
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
        match self.work.take(bytes.saturating_add(STEP), || self.metadata()) {
            true => Ok(()),
            false => Err(self.corrupt("its metadata form a loop, or exceed the limit of work")),
        }
    }

    /// Pays for memory that is kept.
    pub(super) fn keep(&self, bytes: u64) -> Result<()> {
        match self.memory.take(bytes, || self.metadata()) {
            true => Ok(()),
            false => Err(self.corrupt("what it refers to exceeds the limit of memory")),
        }
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

    /// A block that begins with a signature and ends with a checksum; without the checksum.
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
        if self.is_right(bytes, stored) {
            return Ok(());
        }
        Err(self.corrupt(format!("{what} at {address}: its checksum is wrong")))
    }

    /// Whether a checksum is that of the bytes, or none is verified.
    pub(super) fn is_right(&self, bytes: &[u8], stored: &[u8]) -> bool {
        !self.verifies || *stored == checksum(bytes).to_le_bytes()
    }

    /// The numbers in some bytes.
    pub(super) fn cursor<'b>(&self, bytes: &'b [u8]) -> Cursor<'b> {
        Cursor::new(bytes, self.widths)
    }

    /// Remembers that bytes are metadata.
    pub(super) fn note(&self, address: u64, count: u64) {
        let Some(place) = address.checked_add(self.base) else { return };
        let is_new = {
            let mut found = self.found.borrow_mut();
            let before = found.len();
            let known = found.entry(place).or_default();
            *known = (*known).max(count.min(self.size.saturating_sub(place)));
            found.len() > before
        };
        if is_new {
            // Once refused, the next one is as well.
            let _ = self.keep(NOTE);
        }
    }

    /// Bytes of all metadata that was found until now.
    pub(super) fn metadata(&self) -> u64 {
        let (mut covered, mut end) = (0, 0);
        for (place, count) in self.found.borrow().iter() {
            let (begin, last) = (end.max(*place), place.saturating_add(*count));
            covered += last.saturating_sub(begin);
            end = end.max(last);
        }
        covered
    }
}

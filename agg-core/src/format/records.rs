//! Files of records of one size, behind a header or not.

use super::{Data, Map, Piece, Thing};
use crate::Extent;
use std::fmt;

/// Files cannot be larger.
const LARGEST: u64 = i64::MAX as u64;

/// Records of one size from a byte of the file on. Each is a slab of one variable, whose elements are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    record: u64,
    header: u64,
}

impl Records {
    /// Records of `record` bytes behind a header of `header` bytes; `None` if no file has a single one.
    pub fn new(record: u64, header: u64) -> Option<Self> {
        let fits = header.checked_add(record).is_some_and(|end| end <= LARGEST);
        (record > 0 && fits).then_some(Self { record, header })
    }

    fn begin(&self, record: u64) -> Option<u64> {
        record.checked_mul(self.record)?.checked_add(self.header)
    }
}

impl fmt::Display for Records {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "records:{}", self.record)?;
        if self.header > 0 { write!(to, ":{}", self.header) } else { Ok(()) }
    }
}

impl Map for Records {
    fn header(&self) -> u64 {
        self.header
    }

    fn piece(&self, offset: u64) -> Piece {
        if offset < self.header {
            let extent = Extent::between(offset, self.header);
            return Piece { extent, thing: Thing::Header };
        }
        let (record, byte) =
            ((offset - self.header) / self.record, (offset - self.header) % self.record);
        let extent = Extent::new(offset, self.record - byte);
        let elements = byte..byte + extent.len;
        Piece { extent, thing: Thing::Data(Data { variable: 0, record, elements }) }
    }

    fn extent_of(&self, data: &Data) -> Option<Extent> {
        let Data { variable: 0, record, elements } = data else { return None };
        if elements.start > elements.end || elements.end > self.record {
            return None;
        }
        let start = self.begin(*record)?.checked_add(elements.start)?;
        let end = start.checked_add(elements.end - elements.start)?;
        Some(Extent::between(start, end))
    }

    fn border_before(&self, offset: u64) -> Option<u64> {
        let behind = offset.checked_sub(self.header);
        Some(behind.map_or(0, |behind| offset - behind % self.record))
    }

    fn border_behind(&self, offset: u64) -> Option<u64> {
        match offset.checked_sub(self.header) {
            None if offset == 0 => Some(0),
            None => Some(self.header),
            Some(behind) => self.begin(behind.div_ceil(self.record)),
        }
    }

    fn rows(&self, offset: u64) -> Option<(u64, u64)> {
        (offset >= self.header).then(|| (offset - (offset - self.header) % self.record, 1))
    }

    fn last(&self) -> Extent {
        Extent::default()
    }

    fn depends_on(&self, _: Extent) -> bool {
        false
    }
}

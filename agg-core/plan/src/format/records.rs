//! Files of records of one size, behind a header or not.

use super::{Data, Map, Piece, Thing};
use aggio_base::Extent;
pub use aggio_config::hints::Records;

/// The first byte of a record; `None` on overflow.
fn begin(of: &Records, record: u64) -> Option<u64> {
    record.checked_mul(of.record())?.checked_add(Records::header(of))
}

impl Map for Records {
    fn header(&self) -> u64 {
        Records::header(self)
    }

    fn piece(&self, offset: u64) -> Piece {
        if offset < self.header() {
            let extent = Extent::between(offset, self.header());
            return Piece { extent, thing: Thing::Header };
        }
        let (record, byte) =
            ((offset - self.header()) / self.record(), (offset - self.header()) % self.record());
        let extent = Extent::new(offset, self.record() - byte);
        let elements = byte..byte + extent.len;
        Piece { extent, thing: Thing::Data(Data { variable: 0, record, elements }) }
    }

    fn extent_of(&self, data: &Data) -> Option<Extent> {
        let Data { variable: 0, record, elements } = data else { return None };
        if elements.start > elements.end || elements.end > self.record() {
            return None;
        }
        let start = begin(self, *record)?.checked_add(elements.start)?;
        let end = start.checked_add(elements.end - elements.start)?;
        Some(Extent::between(start, end))
    }

    fn border_before(&self, offset: u64) -> Option<u64> {
        let behind = offset.checked_sub(self.header());
        Some(behind.map_or(0, |behind| offset - behind % self.record()))
    }

    fn border_behind(&self, offset: u64) -> Option<u64> {
        match offset.checked_sub(self.header()) {
            None if offset == 0 => Some(0),
            None => Some(self.header()),
            Some(behind) => begin(self, behind.div_ceil(self.record())),
        }
    }

    fn rows(&self, offset: u64) -> Option<(u64, u64)> {
        (offset >= self.header()).then(|| (offset - (offset - self.header()) % self.record(), 1))
    }

    fn last(&self) -> Extent {
        Extent::default()
    }

    fn depends_on(&self, _: Extent) -> bool {
        false
    }
}

//! A format for tests: records behind a header that contains their size.

use super::*;

/// How files of the format begin.
const MAGIC: &[u8; 4] = b"AgT\x01";

/// The header of a file with records of `record` bytes behind it.
pub fn head_of(header: u32, record: u32) -> Vec<u8> {
    let words = [0, header, record].map(u32::to_le_bytes).concat();
    let mut head = [&MAGIC[..], &words].concat();
    head.resize(header as usize, b'h');
    head
}

/// The format, as an engine's plugin.
pub const FORMATS: Formats = Formats::new(&[&Numbers]);

struct Numbers;

impl Format for Numbers {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn recognise(&self, head: &[u8]) -> Recognised {
        recognise(head)
    }
}

/// As [`Format::recognise`].
pub fn recognise(head: &[u8]) -> Recognised {
    if !head.starts_with(MAGIC) {
        return Recognised::Other;
    }
    let word =
        |at: usize| head.get(at..at + 4)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    match (word(8), word(12)) {
        (Some(header), Some(record)) if header as usize <= head.len() => {
            match Records::new(record.into(), header.into()) {
                Some(records) => Recognised::Map(Arc::new(Numbered(records))),
                None => Recognised::Unclear,
            }
        }
        _ => Recognised::Unclear,
    }
}

/// Records; their number is in bytes 4 to 7 of the header.
#[derive(Debug)]
struct Numbered(Records);

impl Map for Numbered {
    fn header(&self) -> u64 {
        self.0.header()
    }

    fn piece(&self, offset: u64) -> Piece {
        self.0.piece(offset)
    }

    fn extent_of(&self, data: &Data) -> Option<Extent> {
        self.0.extent_of(data)
    }

    fn border_before(&self, offset: u64) -> Option<u64> {
        self.0.border_before(offset)
    }

    fn border_behind(&self, offset: u64) -> Option<u64> {
        self.0.border_behind(offset)
    }

    fn rows(&self, offset: u64) -> Option<(u64, u64)> {
        self.0.rows(offset)
    }

    fn last(&self) -> Extent {
        Extent::new(0, self.0.header())
    }

    fn depends_on(&self, changed: Extent) -> bool {
        !changed.is_empty() && (changed.offset < 4 || changed.end() > 8)
    }
}

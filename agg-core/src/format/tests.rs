//! A format for tests, and what holds for every map.

use super::*;
use proptest::prelude::*;

/// How files of the format begin.
const MAGIC: &[u8; 4] = b"AgT\x01";

/// The header of a file with records of `record` bytes behind it.
pub(crate) fn head_of(header: u32, record: u32) -> Vec<u8> {
    let words = [0, header, record].map(u32::to_le_bytes).concat();
    let mut head = [&MAGIC[..], &words].concat();
    head.resize(header as usize, b'h');
    head
}

/// As [`Format::recognise`].
pub(crate) fn recognise(head: &[u8]) -> Recognised {
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

/// Records whose number is in the header, in bytes 4 to 7.
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

proptest! {
    #[test]
    fn records_are_where_counting_bytes_finds_them(
        record in 1..50u64, header in 0..40u64, at in 0..400u64, len in 0..200u64,
    ) {
        let map = Records::new(record, header).expect("a file has such records");
        // The oracle: the file byte by byte.
        let thing = |offset: u64| offset.checked_sub(header).map(|behind| (behind / record, behind % record));
        let mut next = at;
        for piece in pieces(&map, Extent::new(at, len)) {
            prop_assert_eq!(piece.extent.offset, next);
            prop_assert!(!piece.extent.is_empty());
            next = piece.extent.end();
            for (place, offset) in (piece.extent.offset..piece.extent.end()).enumerate() {
                match (&piece.thing, thing(offset)) {
                    (Thing::Header, None) => {}
                    (Thing::Data(data), Some((number, byte))) => {
                        prop_assert_eq!((data.record, data.elements.start + place as u64), (number, byte));
                        let one = Data { elements: byte..byte + 1, ..data.clone() };
                        prop_assert_eq!(map.extent_of(&one), Some(Extent::new(offset, 1)));
                    }
                    found => prop_assert!(false, "byte {offset}: {found:?}"),
                }
            }
            if let Thing::Data(data) = &piece.thing {
                prop_assert_eq!(map.extent_of(data), Some(piece.extent));
            }
        }
        prop_assert_eq!(next, at + len);
        let is_border = |offset: &u64| *offset == 0 || thing(*offset).is_some_and(|(_, byte)| byte == 0);
        prop_assert_eq!(map.border_before(at), (0..=at).rev().find(is_border));
        prop_assert_eq!(map.border_behind(at), (at..at + 100).find(is_border));
    }
}

#[test]
fn elements_that_no_record_has_are_nowhere() {
    let map = Records::new(10, 4).expect("a file has such records");
    let of = |variable, record, elements| map.extent_of(&Data { variable, record, elements });
    assert_eq!(of(0, 2, 3..10), Some(Extent::new(27, 7)));
    assert_eq!(of(1, 2, 3..10), None);
    assert_eq!(of(0, 2, 3..11), None);
    assert_eq!(of(0, u64::MAX, 3..4), None);
}

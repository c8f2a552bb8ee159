//! Properties of every map.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn records_are_where_counting_bytes_finds_them(
        record in 1..50u64, header in 0..40u64, at in 0..400u64, len in 0..200u64,
    ) {
        let map = Records::new(record, header).expect("a file has such records");
        // The oracle: the file byte by byte.
        let thing = |offset: u64| {
            let behind = offset.checked_sub(header)?;
            Some((behind / record, behind % record))
        };
        let mut next = at;
        for piece in pieces(&map, Extent::new(at, len)) {
            prop_assert_eq!(piece.extent.offset, next);
            prop_assert!(!piece.extent.is_empty());
            next = piece.extent.end();
            for (place, offset) in (piece.extent.offset..piece.extent.end()).enumerate() {
                match (&piece.thing, thing(offset)) {
                    (Thing::Header, None) => {}
                    (Thing::Data(data), Some((number, byte))) => {
                        let found = (data.record, data.elements.start + place as u64);
                        prop_assert_eq!(found, (number, byte));
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
        let is_border = |offset: &u64| {
            *offset == 0 || thing(*offset).is_some_and(|(_, byte)| byte == 0)
        };
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

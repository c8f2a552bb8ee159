//! Every datatype behaves as its typemap says.

use super::typemap::{Recipe, Typemap, ascending_recipes, recipes, runs};
use super::{Basic, Cursor, Datatype};
use proptest::prelude::*;

const COPIES: u64 = 3;

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

fn both(recipe: &Recipe) -> (Datatype, Typemap) {
    (recipe.datatype(), recipe.typemap())
}

fn rest(cursor: &mut Cursor) -> Vec<(i64, u64)> {
    let mut found = Vec::new();
    while let Some((at, len)) = cursor.run() {
        found.push((at, len));
        cursor.advance(len);
    }
    found
}

/// The elements of `count` copies, equal neighbours counted together.
fn rows(map: &Typemap, count: u64) -> Vec<(Basic, u64)> {
    let mut rows: Vec<(Basic, u64)> = Vec::new();
    for _ in 0..count {
        for (basic, _) in &map.entries {
            match rows.last_mut() {
                Some((last, n)) if last == basic => *n += 1,
                _ => rows.push((*basic, 1)),
            }
        }
    }
    rows
}

fn facts_agree(recipe: &Recipe) -> Result<(), TestCaseError> {
    let (datatype, map) = both(recipe);
    prop_assert_eq!(datatype.size(), map.size());
    let external = map.entries.iter().map(|(basic, _)| u64::from(basic.external_size)).sum::<u64>();
    prop_assert_eq!(datatype.external_size(), external);
    prop_assert_eq!((datatype.lb(), datatype.ub()), (map.lb(), map.ub()));
    prop_assert_eq!((datatype.true_lb(), datatype.true_ub()), (map.true_lb(), map.true_ub()));
    prop_assert_eq!(datatype.is_monotone(), map.is_monotone());
    if datatype.is_monotone() {
        prop_assert_eq!(datatype.has_overlap(), map.has_overlap());
    } else {
        prop_assert!(datatype.has_overlap() || !map.has_overlap());
    }
    prop_assert_eq!(datatype.pieces(), runs(&map.bytes(1)).len() as u64);
    prop_assert_eq!(datatype.is_contiguous(), runs(&map.bytes(4)).len() <= 1);
    let copies = runs(&map.bytes(COPIES));
    let unit = 1i64 << datatype.grain().min(62);
    for (at, len) in &copies {
        prop_assert_eq!((at - copies[0].0) % unit, 0);
        prop_assert_eq!(*len as i64 % unit, 0);
    }
    let ascending = map.bytes(COPIES).windows(2).all(|pair| pair[0] < pair[1]);
    prop_assert_eq!(datatype.is_ascending(), ascending);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sizes_bounds_and_flags_are_those_of_the_typemap(recipe in recipes()) {
        facts_agree(&recipe)?;
    }

    #[test]
    fn sizes_bounds_and_flags_of_filetypes_are_those_of_the_typemap(recipe in ascending_recipes()) {
        facts_agree(&recipe)?;
    }

    #[test]
    fn runs_from_every_position_are_maximal_and_complete(recipe in recipes(), stride in 1usize..9) {
        let (datatype, map) = both(&recipe);
        let bytes = map.bytes(COPIES);
        for position in (0..=bytes.len()).step_by(stride) {
            let mut cursor = datatype.cursor(COPIES, position as u64);
            prop_assert_eq!(cursor.position(), position as u64);
            prop_assert_eq!(rest(&mut cursor), runs(&bytes[position..]));
            prop_assert_eq!(cursor.position(), bytes.len() as u64);
        }
    }

    #[test]
    fn a_cursor_may_be_advanced_by_any_number_of_bytes(
        recipe in recipes(),
        steps in prop::collection::vec(0u64..40, 1..20),
    ) {
        let (datatype, map) = both(&recipe);
        let bytes = map.bytes(COPIES);
        let mut cursor = datatype.cursor(COPIES, 0);
        let mut position = 0u64;
        for step in steps {
            cursor.advance(step);
            position = (position + step).min(bytes.len() as u64);
            prop_assert_eq!(cursor.position(), position);
            prop_assert_eq!(cursor.run(), runs(&bytes[position as usize..]).first().copied());
        }
    }

    #[test]
    fn offsets_of_the_endless_tiling_are_those_of_the_typemap(recipe in recipes()) {
        let (datatype, map) = both(&recipe);
        for (position, at) in map.bytes(COPIES).into_iter().enumerate() {
            prop_assert_eq!(datatype.offset_at(position as u64), at);
        }
    }

    #[test]
    fn data_before_counts_the_bytes_below(recipe in ascending_recipes()) {
        let (datatype, map) = both(&recipe);
        if datatype.is_ascending() {
            let bytes = map.bytes(COPIES);
            let end = bytes.last().map_or(0, |last| last + 1);
            for limit in -3..=end {
                let below = bytes.iter().filter(|at| **at < limit).count() as u64;
                prop_assert_eq!(datatype.data_before(limit), below, "below {}", limit);
            }
        }
    }

    #[test]
    fn elements_come_in_typemap_order(recipe in recipes()) {
        let (datatype, map) = both(&recipe);
        for count in [0, 1, COPIES] {
            let found: Vec<_> = datatype.elements(count).collect();
            prop_assert_eq!(found, rows(&map, count));
        }
    }

    #[test]
    fn a_datatype_survives_the_way_to_another_rank(recipe in recipes()) {
        let datatype = recipe.datatype();
        let received = Datatype::decode(&datatype.encode()).unwrap();
        prop_assert_eq!(&received, &datatype);
        prop_assert_eq!(received.encode(), datatype.encode());
        prop_assert_eq!((received.lb(), received.ub()), (datatype.lb(), datatype.ub()));
        prop_assert_eq!(rest(&mut received.cursor(2, 0)), rest(&mut datatype.cursor(2, 0)));
        prop_assert_eq!(
            received.elements(2).collect::<Vec<_>>(),
            datatype.elements(2).collect::<Vec<_>>()
        );
    }

    #[test]
    fn damaged_encodings_do_no_harm(
        recipe in recipes(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = recipe.datatype().encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        use_decoded(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        use_decoded(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(0u8..16, 0..60)) {
        use_decoded(&[&[1][..], &bytes].concat());
    }
}

/// Asks a datatype of unknown origin everything.
fn use_decoded(bytes: &[u8]) {
    let Ok(datatype) = Datatype::decode(bytes) else { return };
    assert!(datatype.tree_bytes() < 300 * (bytes.len() + 4));
    for position in [0, 1, 1 << 20, u64::MAX] {
        let mut cursor = datatype.cursor(u64::MAX, position);
        for _ in 0..8 {
            let Some((_, len)) = cursor.run() else { break };
            cursor.advance(len);
        }
        datatype.offset_at(position);
    }
    for limit in [i64::MIN, -1, 0, 1, 1 << 40, i64::MAX] {
        datatype.data_before(limit);
    }
    assert_eq!(Datatype::decode(&datatype.encode()).ok(), Some(datatype));
}

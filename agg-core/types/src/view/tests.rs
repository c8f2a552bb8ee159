//! Views against the typemap of their filetype.

use super::*;
use crate::datatype::Basic;
use crate::datatype::typemap::{Recipe, ascending_recipes, recipes, runs};
use proptest::prelude::*;

const TILES: u64 = 3;

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) }
}

fn view(recipe: &Recipe, displacement: u64) -> Result<View> {
    let filetype = recipe.datatype();
    View::new(displacement, Datatype::bytes(1), filetype, Representation::Native, false)
}

/// The file bytes of the first tiles.
fn file_bytes(recipe: &Recipe, displacement: u64) -> Vec<i64> {
    recipe.typemap().bytes(TILES).iter().map(|at| at + displacement as i64).collect()
}

/// A part of `bytes`: where it starts, and its bytes.
fn part(bytes: &[i64], from: prop::sample::Index, to: prop::sample::Index) -> (u64, Vec<i64>) {
    let (a, b) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
    (a.min(b) as u64, bytes[a.min(b)..a.max(b)].to_vec())
}

fn int() -> Datatype {
    Datatype::basic(Basic::signed(4))
}

fn refused(filetype: Datatype, writable: bool) -> bool {
    let view = View::new(0, Datatype::bytes(1), filetype, Representation::Native, writable);
    view.is_err_and(|error| error.class() == ErrorClass::Io)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn exactly_the_filetypes_that_the_standard_forbids_are_refused(
        recipe in recipes(), writable in any::<bool>(),
    ) {
        let map = recipe.typemap();
        let negative = map.true_lb() < 0 || map.extent() < 0;
        let overlap = writable && map.has_overlap();
        let starts = runs(&map.bytes(1));
        let in_order =
            if writable { map.is_monotone() } else { starts.is_sorted_by_key(|run| run.0) };
        let bad = negative || !in_order || overlap;
        prop_assert_eq!(refused(recipe.datatype(), writable), bad);
    }

    #[test]
    fn extents_of_any_part_are_the_runs_of_the_typemap(
        recipe in ascending_recipes(), displacement in 0u64..50,
        from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
    ) {
        let view = view(&recipe, displacement).unwrap();
        let (at, part) = part(&file_bytes(&recipe, displacement), from, to);
        let found = view.extents(at, part.len() as u64);
        let found: Vec<_> = found.map(|extent| (extent.offset as i64, extent.len)).collect();
        prop_assert_eq!(&found, &runs(&part));
        prop_assert_eq!(view.is_contiguous_at(at, part.len() as u64), found.len() <= 1);
        let pieces = view.pieces(at, part.len() as u64);
        prop_assert!(pieces == found.len() as u64 || found.len() >= 1024);
    }

    #[test]
    fn the_span_holds_all_bytes_and_no_more_if_they_ascend(
        recipe in ascending_recipes(), displacement in 0u64..50,
        from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
    ) {
        let view = view(&recipe, displacement).unwrap();
        let (at, part) = part(&file_bytes(&recipe, displacement), from, to);
        let span = view.span(at, part.len() as u64);
        if let (Some(low), Some(high)) = (part.iter().min(), part.iter().max()) {
            let exact = Extent::between(*low as u64, *high as u64 + 1);
            prop_assert_eq!(span.intersect(exact), exact);
            prop_assert!(!view.is_aggregatable() || span == exact);
        } else {
            prop_assert!(span.is_empty());
        }
    }

    #[test]
    fn positions_and_offsets_are_inverse(recipe in ascending_recipes(), displacement in 0u64..50) {
        let view = view(&recipe, displacement).unwrap();
        let bytes = file_bytes(&recipe, displacement);
        for (position, offset) in bytes.iter().enumerate() {
            prop_assert_eq!(view.offset_at(position as u64), *offset as u64);
            if view.is_aggregatable() {
                prop_assert_eq!(view.data_before(*offset as u64), position as u64);
                prop_assert_eq!(view.data_before(*offset as u64 + 1), position as u64 + 1);
            }
        }
        if view.is_aggregatable() {
            prop_assert_eq!(view.data_before(0), 0);
        }
    }

    #[test]
    fn a_part_of_one_copy_of_the_filetype_ascends_whatever_its_extent(
        recipe in ascending_recipes(), displacement in 0u64..50, extent in 0i64..40,
        copy in 0..TILES, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
    ) {
        let filetype = recipe.datatype().resized(0, extent).unwrap();
        prop_assume!(filetype.size() > 0);
        let view = View { displacement, filetype, ..View::bytes() };
        let size = view.filetype.size() as usize;
        let (a, b) = (from.index(size) as u64, to.index(size) as u64);
        let (position, len) = (copy * size as u64 + a.min(b), a.abs_diff(b) + 1);
        let other = view.ascending_at(position, len);
        prop_assert_eq!(other.is_some(), !view.is_aggregatable());
        let Some((other, at)) = other else { return Ok(()) };
        prop_assert!(other.is_aggregatable());
        let merged = |view: &View, at| view.extents(at, len).collect::<Vec<_>>();
        prop_assert_eq!(merged(&other, at), merged(&view, position));
        let back = View::decode(&other.encode()).unwrap();
        prop_assert_eq!(merged(&back, at), merged(&view, position));
    }

    #[test]
    fn a_view_survives_the_way_to_another_rank(recipe in ascending_recipes(), at in any::<u32>()) {
        let name = Representation::User("mine".into());
        let view = View::new(at.into(), Datatype::bytes(1), recipe.datatype(), name, true).unwrap();
        let received = View::decode(&view.encode()).unwrap();
        prop_assert_eq!(received.hash(), view.hash());
        prop_assert_eq!(received.representation(), view.representation());
        prop_assert_eq!(received.displacement(), view.displacement());
        prop_assert_eq!(received.filetype(), view.filetype());
        for n in 0..view.encode().len() {
            prop_assert!(View::decode(&view.encode()[..n]).is_err());
        }
    }
}

#[test]
fn a_filetype_must_consist_of_whole_etypes() {
    let make = |etype, filetype| View::new(0, etype, filetype, Representation::Native, true);
    assert!(make(int(), Datatype::bytes(6)).is_err());
    assert!(make(int(), Datatype::bytes(8)).is_ok());
    assert!(make(Datatype::bytes(0), Datatype::bytes(0)).is_ok());
    assert!(make(Datatype::bytes(0), Datatype::bytes(1)).is_err());
}

#[test]
fn an_overlapping_filetype_is_refused_for_writing_only() {
    let overlapping = Datatype::hvector(3, 1, 2, &int()).unwrap();
    assert!(refused(overlapping.clone(), true));
    assert!(!refused(overlapping, false));
}

#[test]
fn tiles_that_interleave_are_legal_but_not_aggregatable() {
    let filetype = Datatype::hvector(2, 1, 12, &int()).unwrap().resized(0, 4).unwrap();
    let view = View::new(0, int(), filetype, Representation::Native, true).unwrap();
    assert!(!view.is_aggregatable());
    let offsets: Vec<_> = view.extents(0, 16).map(|extent| extent.offset).collect();
    assert_eq!(offsets, [0, 12, 4, 16]);
    assert_eq!(view.span(0, 16), Extent::between(0, 20));
    assert!(view.ascending_at(4, 8).is_none(), "two copies");
    let (ascending, position) = view.ascending_at(12, 4).expect("one copy");
    assert_eq!((ascending.span(position, 4), position), (Extent::new(16, 4), 4));
}

#[test]
fn a_view_without_bytes_has_no_extents() {
    let none = Datatype::contiguous(0, &int()).unwrap();
    let view = View::new(7, int(), none, Representation::Native, true).unwrap();
    assert_eq!(view.extents(0, 100).count(), 0);
    assert_eq!((view.data_before(1000), view.etype_size(), view.is_empty()), (0, 4, true));
    assert!(view.span(3, 10).is_empty());
}

#[test]
fn offsets_beyond_the_largest_file_do_not_wrap() {
    let view = View::bytes();
    let extents: Vec<_> = view.extents(i64::MAX as u64 - 1, 100).collect();
    assert_eq!(extents, [Extent::new(i64::MAX as u64 - 1, 1)]);
    assert_eq!(view.extents(u64::MAX, 100).count(), 0);
    let end = i64::MAX as u64;
    let bytes = Datatype::bytes(1);
    let far = View::new(end - 3, bytes.clone(), bytes, Representation::Native, true).unwrap();
    assert_eq!(far.offset_at(u64::MAX), end);
    assert_eq!(far.data_before(u64::MAX), i64::MAX as u64);
    assert_eq!(far.extents(0, 10).collect::<Vec<_>>(), [Extent::new(end - 3, 10)]);
}

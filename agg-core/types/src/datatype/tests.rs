//! Tests of single properties of datatypes.

use super::*;

fn int() -> Datatype {
    Datatype::basic(Basic::signed(4))
}

fn runs(datatype: &Datatype, count: u64) -> Vec<(i64, u64)> {
    let mut cursor = datatype.cursor(count, 0);
    let mut runs = Vec::new();
    while let Some((at, len)) = cursor.run() {
        runs.push((at, len));
        cursor.advance(len);
    }
    runs
}

#[test]
fn a_row_of_rows_is_one_leaf() {
    let row = Datatype::contiguous(10, &Datatype::contiguous(3, &int()).unwrap()).unwrap();
    assert_eq!(row, Datatype::contiguous(30, &int()).unwrap());
    assert_eq!(runs(&row, 2), [(0, 240)]);
    assert!(row.is_contiguous());
}

#[test]
fn a_vector_whose_stride_is_its_block_is_a_row() {
    let vector = Datatype::hvector(5, 2, 8, &int()).unwrap();
    assert_eq!(vector, Datatype::contiguous(10, &int()).unwrap());
}

#[test]
fn a_vector_of_many_pieces_costs_as_much_as_one_of_few() {
    let vector = Datatype::hvector(100_000_000, 1, 8, &int()).unwrap();
    assert_eq!(vector.pieces(), 100_000_000);
    assert!(vector.tree_bytes() < 1024, "{} bytes", vector.tree_bytes());
    assert!(vector.encode().len() < 64);
    assert_eq!(vector.offset_at(4 * 99_999_999), 8 * 99_999_999);
    assert_eq!(vector.data_before(8 * 50_000_000), 4 * 50_000_000);
}

#[test]
fn blocks_of_different_lengths_are_walked_one_by_one() {
    let blocks = Datatype::hindexed(&[(2, 8), (1, 24), (3, 40)], &int()).unwrap();
    assert_eq!(runs(&blocks, 1), [(8, 8), (24, 4), (40, 12)]);
    assert_eq!((blocks.lb(), blocks.ub(), blocks.size()), (8, 52, 24));
}

#[test]
fn a_list_of_a_regular_pattern_is_that_pattern() {
    let rows = (0..100i64).flat_map(|y| (0..50).map(move |x| 1000 * y + 8 * x));
    let list = Datatype::hindexed_block(1, &rows.collect::<Vec<_>>(), &int()).unwrap();
    let row = Datatype::hvector(50, 1, 8, &int()).unwrap();
    assert_eq!(list, Datatype::hvector(100, 1, 1000, &row).unwrap());
    assert!(list.tree_bytes() < 1024);
}

#[test]
fn a_list_of_a_few_patterns_is_kept_as_patterns() {
    let short = (0..1000).map(|n| (1, 12 * n));
    let long = (0..1000).map(|n| (3, 100_000 + 40 * n));
    let blocks: Vec<(u64, i64)> = short.chain(long).collect();
    let list = Datatype::hindexed(&blocks, &int()).unwrap();
    assert!(list.tree_bytes() < 1024, "{} bytes", list.tree_bytes());
    assert!(list.encode().len() < 100);
    let expected: Vec<_> = blocks.iter().map(|(len, at)| (*at, 4 * len)).collect();
    assert_eq!(runs(&list, 1), expected);
}

#[test]
fn an_irregular_list_costs_a_few_bytes_an_entry() {
    let list: Vec<i64> = (0..1000i64).map(|n| 16 * n + n * n % 7).collect();
    let list = Datatype::hindexed_block(1, &list, &Datatype::bytes(1)).unwrap();
    assert_eq!(list.pieces(), 1000);
    assert!(list.encode().len() < 1100, "{} bytes", list.encode().len());
}

#[test]
fn trees_deeper_than_the_limit_are_refused() {
    let mut datatype = int();
    let mut depth = 1;
    let error = loop {
        let gap = datatype.true_ub() + 1;
        match Datatype::structure(&[(1, 0, datatype), (1, gap, int())]) {
            Ok(next) => datatype = next,
            Err(error) => break error,
        }
        depth += 1;
        assert!(depth < 1000);
    };
    assert_eq!(error.class(), aggio_base::ErrorClass::Type);
}

#[test]
fn a_shared_part_is_sent_once() {
    let mut datatype = int();
    for _ in 0..20 {
        let gap = datatype.true_ub() + 1;
        let fields =
            [(1, 0, datatype.clone()), (1, gap, Datatype::bytes(1)), (1, gap + 2, datatype)];
        datatype = Datatype::structure(&fields).unwrap();
    }
    assert!(datatype.pieces() > 1 << 20);
    assert!(datatype.encode().len() < 1000);
    assert!(datatype.tree_bytes() < 20 * 1024);
    assert_eq!(Datatype::decode(&datatype.encode()), Ok(datatype));
}

#[test]
fn sizes_that_64_bits_cannot_hold_are_argument_errors() {
    let class = |result: aggio_base::Result<Datatype>| result.unwrap_err().class();
    let arg = aggio_base::ErrorClass::Arg;
    assert_eq!(class(Datatype::contiguous(u64::MAX, &int())), arg);
    assert_eq!(class(Datatype::hvector(1 << 40, 1, 1 << 40, &int())), arg);
    assert_eq!(class(Datatype::hindexed(&[(1, i64::MAX)], &int())), arg);
    assert_eq!(class(Datatype::hindexed(&[(1, i64::MIN), (1, i64::MAX - 8)], &int())), arg);
    assert_eq!(class(int().resized(i64::MAX, 1)), arg);
    let huge = [1 << 40, 1 << 40];
    assert_eq!(class(Datatype::subarray(&huge, &[1, 1], &[0, 0], Order::C, &int())), arg);
}

#[test]
fn the_lower_bound_set_by_hand_wins_against_other_fields() {
    let marked = int().resized(0, 16).unwrap();
    let both = Datatype::structure(&[(1, 8, marked), (1, 0, int())]).unwrap();
    assert_eq!((both.lb(), both.ub()), (8, 24));
    assert_eq!((both.true_lb(), both.true_ub()), (0, 12));
}

#[test]
fn rows_are_taken_at_once_up_to_the_last_but_one() {
    let vector = Datatype::hvector(10, 1, 8, &int()).unwrap();
    let mut cursor = vector.cursor(1, 0);
    let rows = cursor.take_rows(1000).unwrap();
    assert_eq!(rows, Rows { displacement: 0, len: 4, stride: 8, count: 8 });
    assert_eq!((cursor.position(), cursor.run()), (32, Some((64, 4))));
    assert_eq!(cursor.take_rows(1000), None);
}

#[test]
fn a_block_of_one_copy_has_no_neighbour_to_overlap_with() {
    let wide = Datatype::hvector(2, 1, 12, &int()).unwrap().resized(0, 16).unwrap();
    let narrow = wide.resized(0, 4).unwrap();
    let single = Datatype::hindexed(&[(1, 0), (1, 100)], &narrow).unwrap();
    assert!(single.is_monotone() && !single.has_overlap());
    let mixed = Datatype::hindexed(&[(1, 0), (2, 100), (1, 1000)], &wide).unwrap();
    assert!(mixed.is_monotone() && !mixed.has_overlap());
    let twice = Datatype::hindexed(&[(1, 0), (2, 100), (1, 1000)], &narrow).unwrap();
    assert!(!twice.is_monotone());
}

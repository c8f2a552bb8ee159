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

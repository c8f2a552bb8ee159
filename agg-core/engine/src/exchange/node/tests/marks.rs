//! The marks of windows, in the memory of a node.

use super::super::marks::Marks;
use super::super::scale::Scale;
use super::{in_operation, records};
use crate::exchange::coverage::Coverage;
use aggio_base::Extent;
use aggio_comm::node::Ring;
use aggio_types::copy::Part;
use std::ops::Range;

/// A window, with marks of 4 bytes.
const WINDOW: Extent = Extent { offset: 1024, len: 512 };
const GRAIN: u32 = 2;

fn empty() -> Coverage {
    Coverage::new(130).expect("memory")
}

fn runs(marks: &Coverage) -> Vec<Range<usize>> {
    Scale::new(WINDOW, GRAIN).runs(marks).collect()
}

/// Marks in window 0 the bytes of a member: 8 of each 24 from byte 8 times its number on, 5 times.
fn mark(marks: Marks<'_>, member: u64) {
    let view = records(WINDOW.offset + 8 * member, 8, 24);
    marks.add(0, &view, Part { window: WINDOW, position: 0, len: 40 });
}

#[test]
fn the_member_that_takes_a_full_window_over_gets_the_marks_of_all() {
    let found = in_operation(3, |operation, rank| {
        Box::pin(async move {
            let ring = Ring::new(operation, 1);
            let (marks, mut all) = (Marks::new(&ring, GRAIN), empty());
            if rank < 2 {
                mark(marks, rank as u64);
            }
            if ring.arrive(0, 3) {
                ring.offer(0);
            }
            if rank == 2 {
                ring.full(0).await.expect("all live");
                marks.collect(0, &mut all);
            }
            runs(&all)
        })
    });
    let wanted: Vec<Range<usize>> = (0..5).map(|row| 24 * row..24 * row + 16).collect();
    assert_eq!(found, [vec![], vec![], wanted]);
}

#[test]
fn marks_add_up_until_they_are_taken() {
    in_operation(1, |operation, _| {
        Box::pin(async move {
            let ring = Ring::new(operation, 1);
            let (marks, mut all) = (Marks::new(&ring, GRAIN), empty());
            mark(marks, 0);
            // As another node described them.
            let mut supplied = empty();
            supplied.add(2, 2);
            supplied.add(100, 1);
            marks.merge(0, &supplied);
            marks.collect(0, &mut all);
            let few = runs(&all);
            assert_eq!((few.len(), few[0].clone(), few[5].clone()), (6, 0..16, 400..404));
            all.clear();
            marks.collect(0, &mut all);
            assert_eq!(runs(&all), []);
            // No mark of before is left in the words that are used again.
            mark(marks, 1);
            marks.forget(0);
            mark(marks, 2);
            marks.collect(0, &mut all);
            let wanted: Vec<Range<usize>> = (0..5).map(|r| 24 * r + 16..24 * r + 24).collect();
            assert_eq!(runs(&all), wanted);
        })
    });
}

#[test]
fn windows_of_different_slots_have_different_marks() {
    in_operation(1, |operation, _| {
        Box::pin(async move {
            let ring = Ring::new(operation, 2);
            let marks = Marks::new(&ring, GRAIN);
            mark(marks, 0);
            let mut all = empty();
            marks.collect(1, &mut all);
            assert_eq!(runs(&all), []);
            marks.collect(0, &mut all);
            assert_eq!(runs(&all).len(), 5);
        })
    });
}

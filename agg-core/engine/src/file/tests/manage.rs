//! Size, storage, durability, consistency.

use super::*;
use aggio_store::driver::fault::arrange;

#[test]
fn a_size_that_differs_between_ranks_changes_nothing() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(3, scratch.name(), Amode::RDWR, |rank| {
        let size = if rank.number == 1 { 4 } else { 5 };
        assert_eq!(class(rank.wait(rank.file.set_size(size))), ErrorClass::Arg);
        assert_eq!(class(rank.wait(rank.file.preallocate(100 + size))), ErrorClass::Arg);
        assert_eq!(class(rank.wait(rank.file.set_size(-1))), ErrorClass::Arg);
        assert_eq!(rank.file.size(), Ok(10));
    });
}

#[test]
fn a_file_is_cut_and_extended_with_zeros() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(3, scratch.name(), Amode::RDWR, |rank| {
        rank.wait(rank.file.set_size(4)).expect("it is cut");
        assert_eq!(rank.file.size(), Ok(4));
        rank.barrier();
        rank.wait(rank.file.set_size(6)).expect("it is extended");
        assert_eq!(rank.file.size(), Ok(6));
    });
    assert_eq!(scratch.bytes(), b"0123\0\0");
}

#[test]
fn requests_that_move_no_bytes_are_counted_where_they_are_made() {
    let scratch = Scratch::holding(b"0123456789");
    let counts = on_file(3, scratch.name(), Amode::RDWR, |rank| {
        rank.wait(rank.file.set_size(4)).expect("it is cut");
        rank.wait(rank.file.preallocate(100)).expect("there is room");
        rank.wait(rank.file.sync()).expect("it is synchronised");
        rank.wait(rank.file.sync()).expect("nothing was written since");
        rank.file.counters().totals().other_out
    });
    // The rank that makes the requests for all also synchronises its changes.
    assert_eq!(counts.iter().sum::<u64>(), 3, "{counts:?}");
    assert!(counts.contains(&3), "{counts:?}");
}

#[test]
fn preallocation_keeps_the_data_and_never_shrinks_the_file() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(2, scratch.name(), Amode::RDWR, |rank| {
        rank.wait(rank.file.preallocate(4)).expect("nothing to do");
        assert_eq!(rank.file.size(), Ok(10));
        rank.barrier();
        rank.wait(rank.file.preallocate(12)).expect("there is room");
    });
    assert_eq!(scratch.bytes(), b"0123456789\0\0");
}

#[test]
fn a_file_opened_for_reading_keeps_its_size() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(2, scratch.name(), Amode::RDONLY, |rank| {
        assert_eq!(class(rank.wait(rank.file.set_size(3))), ErrorClass::ReadOnly);
        assert_eq!(class(rank.wait(rank.file.preallocate(30))), ErrorClass::ReadOnly);
        assert_eq!(rank.wait(rank.file.sync()), Ok(()));
        assert_eq!(rank.file.size(), Ok(10));
    });
}

#[test]
fn a_failing_resize_is_told_to_all_ranks() {
    let scratch = Scratch::holding(b"x");
    let _plan = arrange(&scratch.name(), "op=resize,errno=ENOSPC").expect("a plan");
    on_file(3, format!("testfs:{}", scratch.name()), Amode::RDWR, |rank| {
        assert_eq!(class(rank.wait(rank.file.set_size(100))), ErrorClass::NoSpace);
        assert_eq!(rank.file.size(), Ok(1));
    });
}

#[test]
fn a_failing_sync_of_any_rank_is_told_to_all_and_tried_again_by_the_next() {
    for culprit in 0..3 {
        let scratch = Scratch::new();
        let plan = format!("op=sync,rank={culprit},nth=1,errno=EIO");
        let _plan = arrange(&scratch.name(), &plan).expect("a plan");
        on_file(3, format!("testfs:{}", scratch.name()), CREATE, move |rank| {
            let place = Position::Explicit(rank.number as i64);
            assert_eq!(moved(rank.write(place, b"x")), 1);
            let error = rank.wait(rank.file.sync()).expect_err("an error");
            assert_eq!((error.class(), error.rank()), (ErrorClass::Io, Some(culprit)));
            assert_eq!(rank.wait(rank.file.sync()), Ok(()));
        });
    }
}

#[test]
fn a_wrong_view_of_one_rank_leaves_the_views_of_all() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        rank.set_view(every(1, 1, 4, 8)).expect("a legal view");
        let wrong = Err(Error::new(ErrorClass::Arg, "the filetype is not monotone"));
        let view = if rank.number == 1 { wrong } else { Ok(View::bytes()) };
        let error = rank.set_view(view).expect_err("an error");
        assert_eq!((error.class(), error.rank()), (ErrorClass::Arg, Some(1)));
        assert_eq!(rank.file.view().displacement(), 8);
    });
}

#[test]
fn representations_must_be_the_same_on_all_ranks() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        let int = Datatype::basic(Basic::signed(4));
        let representation = [Representation::Native, Representation::External32];
        let representation = representation[rank.number].clone();
        let set = rank.set_view(View::new(0, int.clone(), int, representation, true));
        assert_eq!(class(set), ErrorClass::NotSame);
    });
}

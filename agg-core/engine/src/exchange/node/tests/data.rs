//! The data of a rank, divided among windows.

use super::super::data::OwnData;
use super::{exchanged, records};
use crate::exchange::Request;
use aggio_base::Extent;
use aggio_types::copy::Part;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::View;

/// Data bytes of the request.
const BYTES: u64 = 100;

/// Calls `look` with the request for 100 bytes from data byte 20 of `view` on.
fn with_request(view: &View, look: impl Fn(Request<'_>)) {
    let mut data = vec![0u8; BYTES as usize];
    // SAFETY: `data` outlives the memory, and is not used meanwhile.
    let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(BYTES), 1) };
    look(Request { view, position: 20, memory: &memory });
}

#[test]
fn a_part_is_the_range_of_the_data_that_an_extent_holds() {
    // Data byte 20 is at file byte 40, data byte 119 at byte 239 - 1.
    with_request(&records(0, 1, 2), |request| {
        let own = OwnData::new(request, None, 0);
        let part = |start, end| {
            let part = own.part(Extent::between(start, end));
            (part.position, part.len)
        };
        assert_eq!(part(0, 1000), (20, 100));
        assert_eq!(part(0, 40), (20, 0));
        assert_eq!(part(41, 43), (21, 1));
        assert_eq!(part(230, 400), (115, 5));
        assert_eq!(part(300, 400), (120, 0));
        let below = [0, 40, 41, 238, 239, u64::MAX].map(|offset| own.bytes_below(offset));
        assert_eq!(below, [0, 0, 1, 99, 100, 100]);
    });
}

#[test]
fn only_exchanged_parts_of_a_window_have_data_in_it() {
    let (window, exchanged) = (Extent::between(64, 128), exchanged(&[(0, 70), (100, 110)]));
    with_request(&View::default(), |request| {
        let parts = |own: OwnData<'_>| own.parts(window).collect::<Vec<Part>>();
        let part = |position, len| Part { window, position, len };
        assert_eq!(parts(OwnData::new(request, None, 0)), [part(64, 56)]);
        let some = OwnData::new(request, Some(&exchanged), 0);
        assert_eq!(parts(some), [part(64, 6), part(100, 10)]);
        assert_eq!(some.parts(Extent::between(128, 192)).count(), 0);
    });
}

#[test]
fn members_begin_with_different_pieces_of_a_window_and_copy_all() {
    let window = Extent::between(24, 104);
    with_request(&View::default(), |request| {
        let mut starts = Vec::new();
        for index in 0..4 {
            let own = OwnData::new(request, None, index);
            let mut pieces: Vec<Part> = own.in_turn(window).collect();
            assert!(pieces.iter().all(|piece| piece.window == window && piece.len == 20));
            starts.push(pieces[0].position);
            pieces.sort_by_key(|piece| piece.position);
            let positions: Vec<u64> = pieces.iter().map(|piece| piece.position).collect();
            assert_eq!(positions, [24, 44, 64, 84]);
        }
        assert_eq!(starts, [24, 44, 64, 84]);
    });
}

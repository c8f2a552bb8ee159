//! The number of bytes that are in the file after an error.

use super::super::data::OwnData;
use super::super::lost::stored_bytes;
use super::{World, in_operation};
use crate::exchange::Request;
use aggio_comm::node::{Ring, Unstored};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::View;

/// Data bytes of each rank, in 16 windows.
const BYTES: u64 = 1024;

/// The result of a node that stored 16 windows, but this one only up to this byte, if any.
fn unstored(part: Option<(u32, u64)>) -> Unstored {
    let mut all = in_operation(1, move |operation, _| {
        Box::pin(async move {
            let ring = Ring::new(operation, 16);
            part.iter().for_each(|(window, upto)| ring.note_unstored(*window, *upto));
            for window in 0..16 {
                assert!(ring.arrive(window, 1));
                ring.finish(window, |_| 1);
            }
            ring.unstored()
        })
    });
    all.remove(0)
}

/// The bytes of `rank`, which has all bytes of the file, that are in the file after the two nodes
/// have ended so. Windows 0, 2, 4, ... are those of the first node.
fn stored(rank: usize, nodes: [Option<(u32, u64)>; 2]) -> u64 {
    let mut data = vec![0u8; BYTES as usize];
    // SAFETY: `data` outlives the memory, and is not used meanwhile.
    let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(BYTES), 1) };
    let request = Request { view: &View::default(), position: 0, memory: &memory };
    let world = World::new(&[0, 0, 1, 1], &[(0, BYTES); 4], &[0, 2]);
    let lost = nodes.map(unstored);
    stored_bytes(&world.plan(rank), &OwnData::new(request, None, 0), &lost)
}

#[test]
fn a_window_counts_as_far_as_it_was_sent_and_stored() {
    assert_eq!(stored(0, [None, None]), BYTES);
    // Window 12 is bytes 384..448, of the first node; window 13 is 896..960, of the second.
    assert_eq!(stored(0, [Some((12, 400)), None]), BYTES - 48);
    assert_eq!(stored(2, [Some((12, 400)), None]), BYTES - 48);
    assert_eq!(stored(0, [None, Some((13, 900))]), BYTES - 60);
    // The second node did not send its bytes of window 12: those of the first are stored.
    assert_eq!(stored(0, [None, Some((12, 384))]), BYTES);
    assert_eq!(stored(2, [None, Some((12, 384))]), BYTES - 64);
}

#[test]
fn windows_far_behind_a_lost_one_are_lost_too() {
    // From window 6 on nothing is stored: 10 windows, and 48 bytes of window 2.
    assert_eq!(stored(0, [Some((2, 80)), None]), BYTES - 48 - 640);
}

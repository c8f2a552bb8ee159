//! The room that the future of a call takes: it is moved on its way, and moving takes time.

use super::*;

/// Bytes. A call of a few microseconds can afford to move this much, and not five times as much.
const MOST: usize = 3712;

/// The size of the function's return value in bytes.
fn room<F>(_: impl Fn(Scene<'static>, Result<Request<'static>>, &'static TagBlock) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn the_future_of_a_call_takes_little_room() {
    let (writes, reads) = (room(write), room(read));
    assert!(writes <= MOST, "a write takes {writes} bytes");
    assert!(reads <= MOST, "a read takes {reads} bytes");
}

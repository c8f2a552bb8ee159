//! Nonblocking reads and writes.

use crate::data::{Buffer, Direction, Position};
use crate::entry::{Opaque, Target};
use agg_core::{Error, ErrorClass, Result};

/// Starts one nonblocking data operation and fills `request`.
///
/// # Safety
/// The buffer and `request` are what MPI demands of them.
pub unsafe fn start(
    _call: &Target,
    _direction: Direction,
    _position: Position,
    _collective: bool,
    _buffer: Buffer,
    _request: Opaque,
) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Lets every pending operation proceed as far as it can without waiting.
pub fn progress() {}

//! Split collective reads and writes.

use crate::data::{Buffer, Direction, Position, SplitPointer};
use crate::entry::{Opaque, Target};
use agg_core::{Error, ErrorClass, Result};

/// Begins a split collective operation.
///
/// # Safety
/// The buffer is what MPI demands of it, until the operation's end.
pub unsafe fn begin(
    _call: &Target,
    _direction: Direction,
    _position: Position,
    _buffer: Buffer,
) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Ends the split collective operation of this kind and fills `status`.
///
/// # Safety
/// `status` is what MPI demands of it.
pub unsafe fn end(
    _call: &Target,
    _direction: Direction,
    _pointer: SplitPointer,
    _buffer: Opaque,
    _status: Opaque,
) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

//! Blocking reads and writes.

use crate::entry::{Opaque, Target};
use agg_core::{Error, ErrorClass, Result};

pub use agg_core_file::{Direction, Position, SplitPointer};

mod agg_core_file {
    //! Stands in for the engine's types until they exist.
    #![expect(missing_docs, dead_code, reason = "replaced by the engine's types")]
    #[derive(Clone, Copy, Debug)]
    pub enum Direction {
        Read,
        Write,
    }
    #[derive(Clone, Copy, Debug)]
    pub enum Position {
        Explicit(i64),
        Individual,
        Shared,
        Ordered,
    }
    #[derive(Clone, Copy, Debug)]
    pub enum SplitPointer {
        Explicit,
        Individual,
        Ordered,
    }
}

/// A buffer as the caller describes it.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "read by the data operations that are still missing")]
pub struct Buffer {
    /// Address; `MPI_BOTTOM` is 0.
    pub address: Opaque,
    /// Number of elements.
    pub count: i64,
    /// Type of an element, an MPI handle.
    pub datatype: usize,
}

impl Buffer {
    /// `count` elements of `datatype` at `address`.
    pub fn new(address: Opaque, count: impl Into<i64>, datatype: usize) -> Self {
        Self { address, count: count.into(), datatype }
    }
}

/// Performs one blocking data operation and fills `status`.
///
/// # Safety
/// The buffer and `status` are what MPI demands of them.
pub unsafe fn blocking(
    _call: &Target,
    _direction: Direction,
    _position: Position,
    _collective: bool,
    _buffer: Buffer,
    _status: Opaque,
) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

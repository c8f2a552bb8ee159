//! One data operation as the caller states it.

use crate::Direction;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_types::memory::Memory;

/// Where in the view an operation starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// At this offset, in etypes of the view.
    Explicit(i64),
    /// At this rank's own file pointer.
    Individual,
    /// At the file pointer that all ranks share, in any order.
    Shared,
    /// At the shared file pointer, in rank order; the operation is collective.
    Ordered,
}

/// A data operation: everything but the file.
#[derive(Debug)]
pub struct Call {
    /// The MPI function's name, for messages.
    pub operation: &'static str,
    /// Read or write.
    pub direction: Direction,
    /// Where it starts.
    pub position: Position,
    /// Whether all ranks of the file take part; implied by [`Position::Ordered`].
    pub collective: bool,
    /// The buffer, or the error in the arguments. The error travels into a collective operation, so
    /// that the other ranks receive it instead of waiting.
    pub memory: Result<Memory>,
}

impl Call {
    /// Whether the other ranks take part.
    pub fn is_collective(&self) -> bool {
        self.collective || self.position == Position::Ordered
    }
}

/// The six kinds of split collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitKind {
    /// Read or write.
    pub direction: Direction,
    /// Which pointer or offset it uses.
    pub pointer: SplitPointer,
}

/// The kind of position that a split collective operation starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitPointer {
    /// `*_at_all_begin`.
    Explicit,
    /// `*_all_begin`.
    Individual,
    /// `*_ordered_begin`.
    Ordered,
}

impl SplitKind {
    /// The kind of split operation that `call` begins.
    ///
    /// # Errors
    /// `Arg` for the shared file pointer without order, which has no split form.
    pub fn of(call: &Call) -> Result<SplitKind> {
        let pointer = match call.position {
            Position::Explicit(_) => SplitPointer::Explicit,
            Position::Individual => SplitPointer::Individual,
            Position::Ordered => SplitPointer::Ordered,
            Position::Shared => {
                let text = "an operation at the shared file pointer cannot be split";
                return Err(Error::new(ErrorClass::Arg, text));
            }
        };
        Ok(SplitKind { direction: call.direction, pointer })
    }
}

impl std::fmt::Display for SplitKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direction = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let pointer = match self.pointer {
            SplitPointer::Explicit => "at_all",
            SplitPointer::Individual => "all",
            SplitPointer::Ordered => "ordered",
        };
        write!(f, "{direction}_{pointer}")
    }
}

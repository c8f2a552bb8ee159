//! The bytes of a request as they stand in the file.
//!
//! In the native representation they are the caller's memory. In external32 they are a copy of the
//! request's size, encoded before a write and decoded after a read.

use super::Direction;
use aggio_base::allocate;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_store::driver::Outcome;
use aggio_types::datatype::Datatype;
use aggio_types::datatype::external32::{decode_external, encode_external, native_bytes};
use aggio_types::memory::Memory;
use aggio_types::view::Representation;

/// Memory in the file's representation.
pub(super) enum Stream {
    /// The caller's own memory.
    Native(Memory),
    /// A copy in external32.
    External(Copied),
}

pub(super) struct Copied {
    in_file: Memory,
    native: Memory,
    direction: Direction,
    /// The memory of `in_file`; must not be accessed while `in_file` is in use.
    bytes: Vec<u8>,
}

/// Bytes that `memory` takes in a file of this representation.
pub(super) fn len_in_file(memory: &Memory, representation: &Representation) -> Result<u64> {
    if *representation != Representation::External32 {
        return Ok(memory.len());
    }
    memory.datatype().external_size().checked_mul(memory.count()).ok_or_else(|| {
        Error::new(ErrorClass::Arg, "the data is larger in external32 than any file can be")
    })
}

impl Stream {
    /// The bytes for an operation with `native`; for a write they are encoded here.
    pub(super) fn new(
        native: &Memory,
        representation: &Representation,
        direction: Direction,
    ) -> Result<Self> {
        if *representation != Representation::External32 {
            return Ok(Stream::Native(native.clone()));
        }
        let mut bytes = match direction {
            Direction::Write => encode_external(native)?,
            Direction::Read => zeros(len_in_file(native, representation)?)?,
        };
        let datatype = Datatype::bytes(bytes.len() as u64);
        // SAFETY: the bytes stay in place as long as `Copied` owns them, and they are not touched
        // by other means before `finish`, when the operation with `in_file` has ended.
        let in_file = unsafe { Memory::new(bytes.as_mut_ptr(), datatype, 1) };
        Ok(Stream::External(Copied { in_file, native: native.clone(), direction, bytes }))
    }

    /// The memory that the engine reads from or writes to.
    pub(super) fn memory(&self) -> &Memory {
        match self {
            Stream::Native(memory) => memory,
            Stream::External(copied) => &copied.in_file,
        }
    }

    /// Decodes the bytes that were read; the outcome then counts native bytes.
    pub(super) fn finish(self, mut outcome: Outcome) -> Outcome {
        let Stream::External(copied) = self else { return outcome };
        let moved = usize::try_from(outcome.bytes).unwrap_or(usize::MAX).min(copied.bytes.len());
        match copied.direction {
            Direction::Write => outcome.bytes = native_bytes(&copied.native, outcome.bytes),
            Direction::Read => match decode_external(&copied.bytes[..moved], &copied.native) {
                Ok(bytes) => outcome.bytes = bytes,
                Err(error) => {
                    outcome = Outcome { bytes: 0, result: outcome.result.and(Err(error)) };
                }
            },
        }
        outcome
    }
}

/// A buffer of zeros, or an error if there is no memory for it.
fn zeros(len: u64) -> Result<Vec<u8>> {
    allocate::zeros(usize::try_from(len).unwrap_or(usize::MAX))
}

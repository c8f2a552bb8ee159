//! Reads and writes: the caller's arguments become one engine call, its outcome a status.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::datarep::{self, Conversion, UserRepresentation};
use crate::datatypes::{self, Lens};
use crate::device::{self, Found, Staged};
use crate::entry::Target;
use crate::{mpi, progress, room, status};
use agg_core::datatype::Datatype;
use agg_core::driver::Outcome;
use agg_core::file::Call;
use agg_core::memory::Memory;
use agg_core::view::Representation;
use agg_core::{Error, ErrorClass, Result};
use std::sync::Arc;

pub use agg_core::file::{Direction, Position, SplitPointer};

/// Addresses below this are no memory of a program.
const FIRST_PAGE: i64 = 4096;

/// A buffer as the caller describes it.
#[derive(Clone, Copy, Debug)]
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

    /// The memory that the arguments describe.
    ///
    /// # Errors
    /// `Count`, `Type`, `Arg` or `Buffer`, after the wrong argument.
    fn memory(&self, abi: &Abi) -> Result<Memory> {
        let count = u64::try_from(self.count).map_err(|_| {
            Error::new(ErrorClass::Count, format!("the count {} is negative", self.count))
        })?;
        let datatype = datatypes::decode_committed(abi, self.datatype)?;
        let bytes = datatype.size().checked_mul(count).filter(|n| i64::try_from(*n).is_ok());
        let Some(bytes) = bytes else {
            let text = format!("{count} elements of {} bytes are too many", datatype.size());
            return Err(Error::new(ErrorClass::Arg, text));
        };
        if bytes > 0 {
            let start = (self.address as i64).wrapping_add(datatype.true_lb());
            if (0..FIRST_PAGE).contains(&start) {
                return Err(Error::new(ErrorClass::Buffer, "the buffer is null"));
            }
        }
        // SAFETY: MPI makes the caller promise that the buffer is valid until the operation ends.
        Ok(unsafe { Memory::new(self.address.cast(), datatype, count) })
    }
}

/// A data operation, ready for the engine.
pub struct Prepared {
    /// The operation for the engine.
    pub call: Call,
    /// The work after the operation.
    pub after: After,
}

/// Converts the caller's arguments into a call of the engine. Errors in them are part of the call,
/// so that the other ranks of a collective operation are notified.
///
/// # Safety
/// The buffer satisfies the requirements of MPI until the operation ends.
pub unsafe fn prepare(
    target: &Target,
    direction: Direction,
    position: Position,
    collective: bool,
    buffer: Buffer,
) -> Prepared {
    let mut call = call(target, direction, position, collective, buffer);
    match device::find(&mut call) {
        None => convert(target, call, buffer),
        // SAFETY: the caller's promise.
        Some(found) => unsafe { stage(target, call, buffer, found) },
    }
}

/// As [`convert`] for a buffer in device memory, in whose place memory of the host is used.
///
/// # Safety
/// The buffer satisfies the requirements of MPI until the operation ends.
unsafe fn stage(target: &Target, mut call: Call, mut buffer: Buffer, found: Found) -> Prepared {
    let view = target.file.engine.view();
    // SAFETY: the caller's promise.
    let staged = unsafe { found.stage(&mut call, &mut buffer.address, view.representation()) };
    let mut prepared = convert(target, call, buffer);
    prepared.after.staged = staged;
    prepared
}

/// The caller's arguments, and nothing more, as an engine call.
fn call(
    target: &Target,
    direction: Direction,
    position: Position,
    collective: bool,
    buffer: Buffer,
) -> Call {
    let memory = buffer.memory(target.abi);
    Call { operation: target.function, direction, position, collective, memory }
}

/// Replaces the memory by its conversion, if the file's representation demands one.
fn convert(target: &Target, mut call: Call, buffer: Buffer) -> Prepared {
    let converted = match &call.memory {
        Ok(native) => Converted::of(target, call.direction, buffer, native),
        Err(_) => Ok(None),
    };
    let after = match converted {
        Ok(None) => None,
        Ok(Some((memory, converted))) => {
            call.memory = Ok(memory);
            Some(Box::new(converted))
        }
        Err(error) => {
            call.memory = Err(error);
            None
        }
    };
    Prepared { call, after: After { converted: after, staged: None } }
}

/// Performs one blocking data operation and fills `status`.
///
/// # Errors
/// The engine's error; even then `status` holds the number of bytes that were moved.
///
/// # Safety
/// The buffer and `status` satisfy the requirements of MPI.
pub unsafe fn blocking(
    target: &Target,
    direction: Direction,
    position: Position,
    collective: bool,
    buffer: Buffer,
    status: Opaque,
) -> Result<()> {
    let engine = &target.file.engine;
    let mut call = call(target, direction, position, collective, buffer);
    let all =
        |prepared: Prepared| prepared.after.finish(progress::wait(engine.start(prepared.call)));
    let outcome = match device::find(&mut call) {
        None => engine.fast_path(&mut call).unwrap_or_else(|| all(convert(target, call, buffer))),
        Some(mut found) => {
            let piece = |call| progress::wait(engine.start(call));
            // SAFETY: the caller's promise.
            unsafe {
                found
                    .in_pieces(engine, &call, piece)
                    .unwrap_or_else(|| all(stage(target, call, buffer, found)))
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe { status::set(target.abi, status, outcome.bytes) };
    outcome.result
}

/// The work after the engine has moved the bytes: nothing, a conversion, a copy to device memory.
pub struct After {
    converted: Option<Box<Converted>>,
    staged: Option<Box<Staged>>,
}

impl After {
    /// The outcome for the caller, in bytes of its memory.
    pub fn finish(self, mut outcome: Outcome) -> Outcome {
        if let Some(converted) = self.converted {
            outcome = converted.finish(outcome);
        }
        if let Some(staged) = self.staged {
            outcome = staged.finish(outcome);
        }
        outcome
    }
}

/// An operation on a file with a data representation of the program's own.
struct Converted {
    abi: &'static Abi,
    representation: Arc<UserRepresentation>,
    direction: Direction,
    buffer: Buffer,
    /// A reference to the type for the conversion function, if the program may free its own.
    kept: Option<usize>,
    /// One element of the buffer's type as it lies in the file.
    row: Datatype,
    /// All elements as they lie in the file.
    bytes: Vec<u8>,
}

// SAFETY: the buffer's address stays valid until the operation ends, by the program's promise.
unsafe impl Send for Converted {}

impl Converted {
    /// `None` if the file's representation needs no conversion.
    fn of(
        target: &Target,
        direction: Direction,
        buffer: Buffer,
        native: &Memory,
    ) -> Result<Option<(Memory, Self)>> {
        let view = target.file.engine.view();
        let Representation::User(name) = view.representation() else { return Ok(None) };
        let conversion = conversion(direction);
        let representation = datarep::registered(name).filter(|it| it.converts(conversion));
        let Some(representation) = representation else { return Ok(None) };
        let extent = |datatype| representation.extent_of(datatype);
        let row = datatypes::decode_for_file(target.abi, buffer.datatype, &Lens::User(&extent))?;
        let size = row.size().checked_mul(native.count()).and_then(|n| usize::try_from(n).ok());
        let mut bytes = Vec::new();
        let room = size.ok_or(()).and_then(|n| bytes.try_reserve_exact(n).map_err(|_| ()));
        let (Some(size), Ok(())) = (size, room) else {
            let text = "no memory for the data in the file's representation";
            return Err(Error::new(ErrorClass::NoMem, text));
        };
        bytes.resize(size, 0u8);
        let kept = keep(target.abi, buffer.datatype)?;
        let abi = target.abi;
        let mut converted = Self { abi, representation, direction, buffer, kept, row, bytes };
        if direction == Direction::Write {
            converted.convert(converted.items_in(size as u64).0)?;
        }
        let base = converted.bytes.as_mut_ptr();
        // SAFETY: the vector keeps its place until the operation has ended, see `finish`.
        let memory = unsafe { Memory::new(base, Datatype::bytes(1), size as u64) };
        Ok(Some((memory, converted)))
    }

    /// How many whole elements `bytes` of the file hold, and their size in memory.
    fn items_in(&self, bytes: u64) -> (u64, u64) {
        let (mut items, mut native, mut left) = (0u64, 0u64, bytes);
        let count = u64::try_from(self.buffer.count).unwrap_or(0);
        for (basic, n) in self.row.elements(count) {
            let size = u64::from(basic.size);
            let whole = n.min(left.checked_div(size).unwrap_or(n));
            items += whole;
            native += whole * u64::from(basic.external_size);
            left -= whole * size;
            if whole < n {
                break;
            }
        }
        (items, native)
    }

    /// Where in the file's bytes the element of a number starts.
    fn place_of(&self, item: u64) -> usize {
        let (mut left, mut place) = (item, 0u64);
        let count = u64::try_from(self.buffer.count).unwrap_or(0);
        for (basic, n) in self.row.elements(count) {
            let here = n.min(left);
            place += here * u64::from(basic.size);
            left -= here;
            if left == 0 {
                break;
            }
        }
        usize::try_from(place).unwrap_or(usize::MAX).min(self.bytes.len())
    }

    fn convert(&mut self, items: u64) -> Result<()> {
        let datatype = self.kept.unwrap_or(self.buffer.datatype);
        let file: Opaque = self.bytes.as_mut_ptr().cast();
        // SAFETY: the buffer is the caller's, and `bytes` has room for all its elements.
        unsafe {
            self.representation.convert(
                conversion(self.direction),
                self.buffer.address,
                datatype,
                items,
                file,
                |item| self.place_of(item),
            )
        }
    }

    fn finish(mut self, outcome: Outcome) -> Outcome {
        let (items, native) = self.items_in(outcome.bytes);
        let mut result = outcome.result;
        if self.direction == Direction::Read && items > 0 {
            result = result.and(self.convert(items));
        }
        Outcome { bytes: native, result }
    }
}

impl Drop for Converted {
    fn drop(&mut self) {
        if let Some(handle) = self.kept {
            // SAFETY: the reference is ours.
            let _ = room::with_handle(self.abi, handle, |place| unsafe {
                mpi::check(mpi::Type_free(place))
            });
        }
    }
}

/// A reference of our own to a type that the program may free; `None` for predefined ones.
fn keep(abi: &Abi, datatype: usize) -> Result<Option<usize>> {
    if datatypes::is_predefined(abi, datatype) {
        return Ok(None);
    }
    // SAFETY: the type was decoded, so it is one; the place has room for a handle.
    let copy = room::new_handle(abi, |place| unsafe { mpi::check(mpi::Type_dup(datatype, place)) });
    copy.map(Some)
}

fn conversion(direction: Direction) -> Conversion {
    match direction {
        Direction::Read => Conversion::Read,
        Direction::Write => Conversion::Write,
    }
}

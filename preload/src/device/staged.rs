//! A call's data in memory of the host instead of a device's.

use super::api::Place;
use super::bytes::{Bytes, PINNED};
use super::places::Places;
use super::{libraries, ordinary};
use crate::arguments::Opaque;
use agg_core::Result;
use agg_core::datatype::Datatype;
use agg_core::driver::Outcome;
use agg_core::file::{Call, Direction, File, Position};
use agg_core::memory::Memory;
use agg_core::view::Representation;
use agg_core::{Error, ErrorClass};
use std::sync::Arc;

/// A buffer that is device memory, wholly or in part.
pub struct Found {
    memory: Memory,
    places: Places,
    /// Where some of it is.
    place: Place,
}

/// The device memory in a call's buffer, if there is any. A driver's error becomes that of the
/// buffer.
#[inline]
pub fn find(call: &mut Call) -> Option<Found> {
    let run = call.memory.as_ref().ok().and_then(Memory::single_run);
    let is_ordinary = run.is_some_and(|(start, _)| ordinary::holds(start as usize));
    if !is_ordinary && libraries::any() { look(call) } else { None }
}

fn look(call: &mut Call) -> Option<Found> {
    let memory = call.memory.as_ref().ok().filter(|memory| !memory.is_empty())?;
    let mut places = Places::default();
    match places.device_in(memory) {
        Ok(place) => place.map(|place| Found { memory: memory.clone(), places, place }),
        Err(error) => {
            call.memory = Err(error);
            None
        }
    }
}

impl Found {
    /// Puts memory of the host in the place of the call's buffer, at `address`; for a write with
    /// the data. `None` after an error, which becomes that of the buffer.
    ///
    /// # Safety
    /// The buffer is valid until the operation ends.
    pub unsafe fn stage(
        self,
        call: &mut Call,
        address: &mut Opaque,
        representation: &Representation,
    ) -> Option<Box<Staged>> {
        // SAFETY: the caller's promise.
        let staged = unsafe { Staged::new(self, call.direction, *address, representation) };
        match staged {
            Ok((staged, memory, start)) => {
                call.memory = Ok(memory);
                *address = start;
                Some(Box::new(staged))
            }
            Err(error) => {
                call.memory = Err(error);
                None
            }
        }
    }

    /// Carries out a long call of this rank alone in pieces, so that the pinned buffer has room for
    /// each. `None` for other calls; then nothing has happened.
    ///
    /// # Safety
    /// The buffer is valid until the operation ends.
    pub unsafe fn in_pieces(
        &mut self,
        file: &Arc<File>,
        call: &Call,
        mut carry_out: impl FnMut(Call) -> Outcome,
    ) -> Option<Outcome> {
        let (view, len) = (file.view(), self.memory.len());
        let etype = view.etype_size();
        let is_plain = is_plain(view.representation()) && !file.atomicity();
        if call.is_collective() || !is_plain || len <= PINNED || etype == 0 || etype > PINNED {
            return None;
        }
        let first = file.claim(call.direction, call.position, len).ok()?;
        let (piece, mut done) = (PINNED / etype * etype, 0);
        let mut result = Ok(());
        while done < len && result.is_ok() {
            let (some, at) = (piece.min(len - done), first + (done / etype) as i64);
            // SAFETY: the caller's promise.
            let outcome = unsafe { self.piece(call, at, (done, some), &mut carry_out) };
            done += outcome.bytes;
            result = outcome.result;
            if outcome.bytes < some {
                break;
            }
        }
        Some(Outcome { bytes: done, result })
    }

    /// Carries out `len` data bytes from `position` on at etype `first`.
    ///
    /// # Safety
    /// The buffer is valid.
    unsafe fn piece(
        &mut self,
        call: &Call,
        first: i64,
        (position, len): (u64, u64),
        carry_out: &mut impl FnMut(Call) -> Outcome,
    ) -> Outcome {
        let failed = |error| Outcome { bytes: 0, result: Err(error) };
        let mut bytes = match Bytes::new(len, self.place) {
            Ok(bytes) => bytes,
            Err(error) => return failed(error),
        };
        let start = bytes.start();
        let host = |at: u64, _| start.wrapping_add((at - position) as usize);
        let (direction, range) = (call.direction, (position, len));
        if direction == Direction::Write {
            // SAFETY: the caller's promise; there is room for the bytes.
            if let Err(error) = unsafe { self.places.copy(&self.memory, direction, range, host) } {
                return failed(error);
            }
        }
        // SAFETY: the bytes stay where they are until the operation has ended.
        let memory = Ok(unsafe { Memory::new(start, Datatype::bytes(1), len) });
        let position = Position::Explicit(first);
        let mut outcome = carry_out(Call { memory, position, ..*call });
        if direction == Direction::Read {
            let range = (range.0, outcome.bytes.min(len));
            // SAFETY: as above.
            let copied = unsafe { self.places.copy(&self.memory, direction, range, host) };
            outcome.result = outcome.result.and(copied);
        }
        outcome
    }
}

/// A call's data in memory of the host.
pub struct Staged {
    /// The program's buffer.
    memory: Memory,
    places: Places,
    direction: Direction,
    bytes: Bytes,
    /// The buffer's lowest address, if the bytes lie at the same distances as there; otherwise
    /// they lie one after the other.
    lowest: Option<usize>,
}

// SAFETY: the pinned buffer belongs to this value alone, and the program's buffer stays valid until
// the operation ends, by its promise.
unsafe impl Send for Staged {}

impl Staged {
    /// Also returns the memory for the engine, and the address that has the distances of the
    /// program's buffer, if a conversion function of the program needs it.
    ///
    /// # Errors
    /// `NoMem`; that of a driver.
    ///
    /// # Safety
    /// The buffer at `address` is valid until the operation ends.
    unsafe fn new(
        found: Found,
        direction: Direction,
        address: Opaque,
        representation: &Representation,
    ) -> Result<(Self, Memory, Opaque)> {
        let Found { memory, places, place } = found;
        let (datatype, count, len) = (memory.datatype(), memory.count(), memory.len());
        let (bytes, lowest, packed) = match representation {
            Representation::User(_) => {
                let (lowest, span) = hull(datatype, count)?;
                let lowest = (address as usize).wrapping_add_signed(lowest as isize);
                (Bytes::own(span)?, Some(lowest), None)
            }
            _ => (Bytes::new(len, place)?, None, Some(packed(datatype, count, representation)?)),
        };
        let mut staged = Self { memory, places, direction, bytes, lowest };
        let first = staged.bytes.start();
        let start = match lowest {
            Some(lowest) => first.wrapping_add((address as usize).wrapping_sub(lowest)),
            None => first,
        };
        if direction == Direction::Write {
            // SAFETY: the caller's promise.
            unsafe { staged.copy(len)? };
        }
        let (datatype, count) =
            packed.unwrap_or_else(|| (staged.memory.datatype().clone(), staged.memory.count()));
        // SAFETY: the bytes stay where they are until the operation has ended, see `finish`.
        let memory = unsafe { Memory::new(start, datatype, count) };
        Ok((staged, memory, start.cast()))
    }

    /// Copies the first `len` data bytes in the call's direction.
    ///
    /// # Safety
    /// The program's buffer is valid.
    unsafe fn copy(&mut self, len: u64) -> Result<()> {
        let Self { memory, places, direction, bytes, lowest } = self;
        let (start, lowest) = (bytes.start(), *lowest);
        let host = |position: u64, address: usize| {
            let distance = lowest.map_or(position as usize, |lowest| address.wrapping_sub(lowest));
            start.wrapping_add(distance)
        };
        // SAFETY: the caller's promise; there is room for all data bytes.
        unsafe { places.copy(memory, *direction, (0, len), host) }
    }

    /// Copies the bytes that were read to the program's buffer.
    pub fn finish(mut self, mut outcome: Outcome) -> Outcome {
        if self.direction == Direction::Read {
            // SAFETY: the program's buffer is valid until the operation ends.
            let copied = unsafe { self.copy(outcome.bytes.min(self.memory.len())) };
            outcome.result = outcome.result.and(copied);
        }
        outcome
    }
}

/// The bytes of a file of this representation are those of memory.
fn is_plain(representation: &Representation) -> bool {
    matches!(representation, Representation::Native | Representation::Internal)
}

/// A datatype without gaps with the same elements, and the number of its copies.
fn packed(
    datatype: &Datatype,
    count: u64,
    representation: &Representation,
) -> Result<(Datatype, u64)> {
    if is_plain(representation) {
        return Ok((Datatype::bytes(1), datatype.size().saturating_mul(count)));
    }
    let (mut fields, mut at) = (Vec::new(), 0i64);
    for (basic, number) in datatype.elements(1) {
        fields.push((number, at, Datatype::basic(basic)));
        at = at.saturating_add_unsigned(number.saturating_mul(u64::from(basic.size)));
    }
    Ok((Datatype::structure(&fields)?, count))
}

/// The lowest displacement of a byte in the copies of a datatype, and the bytes from there to the
/// highest.
fn hull(datatype: &Datatype, count: u64) -> Result<(i64, u64)> {
    let last = i128::from(datatype.extent()) * (i128::from(count) - 1);
    let low = i128::from(datatype.true_lb()) + last.min(0);
    let high = i128::from(datatype.true_ub()) + last.max(0);
    match (i64::try_from(low), u64::try_from(high - low)) {
        (Ok(low), Ok(span)) => Ok((low, span)),
        _ => Err(Error::new(ErrorClass::Arg, "the buffer is larger than any memory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agg_core::datatype::Basic;

    #[test]
    fn a_packed_datatype_has_the_elements_of_the_other_and_no_gaps() {
        let number = Datatype::basic(Basic::signed(4));
        let fields = [(2, 8, number.clone()), (3, 40, Datatype::bytes(1)), (1, 100, number)];
        let wide = Datatype::structure(&fields).and_then(|it| it.resized(-20, 200)).unwrap();
        let (packed, count) = packed(&wide, 7, &Representation::External32).unwrap();
        assert!(packed.is_contiguous() && (packed.first_displacement(), count) == (0, 7));
        assert!(packed.elements(7).eq(wide.elements(7)));
        let (bytes, count) = super::packed(&wide, 7, &Representation::Native).unwrap();
        assert_eq!((bytes.size(), count), (1, 7 * wide.size()));
    }

    #[test]
    fn the_hull_reaches_from_the_lowest_to_the_highest_byte_of_all_copies() {
        let piece = Datatype::hindexed(&[(2, 10), (3, -5)], &Datatype::bytes(1)).unwrap();
        assert_eq!(hull(&piece, 1).unwrap(), (-5, 17));
        assert_eq!(hull(&piece.resized(0, 100).unwrap(), 3).unwrap(), (-5, 217));
        assert_eq!(hull(&piece.resized(0, -100).unwrap(), 3).unwrap(), (-205, 217));
        let far = piece.resized(0, i64::MAX).unwrap();
        assert_eq!(hull(&far, u64::MAX).unwrap_err().class(), ErrorClass::Arg);
    }
}

//! Scattered data, gathered in memory or scattered from there a portion at a time, with the pieces
//! of file that it is for.

use super::{Outcome, generic};
use aggio_base::Extent;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_types::memory::{Memory, MemoryCursor};
use aggio_types::view::View;

/// Bytes of a portion at most.
const BYTES: usize = 4 << 20;
/// Pieces of a portion at most.
const PIECES: usize = 64 << 10;

/// Stores pieces of a file, each with its offset.
type Store<'a> = dyn FnMut(&[(u64, &[u8])]) -> Outcome + 'a;

/// A portion that is being gathered.
struct Portion<'a> {
    store: &'a mut Store<'a>,
    data: Vec<u8>,
    /// File ranges of the data, in its order.
    pieces: Vec<Extent>,
    /// Bytes stored.
    bytes: u64,
}

/// Writes `memory` to the bytes of `view` from data byte `pos` on: `store` gets pieces of the file,
/// each with its offset, until it fails.
///
/// # Errors
/// That of `store`; `Arg` if a piece ends behind the largest file, or the view before the data.
pub fn write_in_portions<'a>(
    view: &View,
    pos: u64,
    memory: &Memory,
    store: &'a mut Store<'a>,
) -> Outcome {
    let mut portion = Portion { store, data: Vec::new(), pieces: Vec::new(), bytes: 0 };
    portion.data.reserve(memory.len().min(BYTES as u64) as usize);
    let result = portion.write(view, pos, memory);
    Outcome { bytes: portion.bytes, result }
}

impl Portion<'_> {
    fn write(&mut self, view: &View, pos: u64, memory: &Memory) -> Result<()> {
        let (len, mut cursor) = (memory.len(), memory.cursor(0));
        let mut placed = 0;
        for extent in view.extents(pos, len) {
            generic::check_range(extent.offset, extent.len)?;
            self.take(extent, &mut cursor)?;
            placed += extent.len;
        }
        self.store()?;
        if placed < len {
            let missing = Extent::new(pos.saturating_add(placed), len - placed);
            let why = "the file view ends before the data does";
            return Err(Error::new(ErrorClass::Arg, why).with_extent(missing));
        }
        Ok(())
    }

    /// Gathers the next bytes, which are for `extent`.
    fn take(&mut self, extent: Extent, cursor: &mut MemoryCursor) -> Result<()> {
        let mut rest = extent;
        while rest.len > 0 {
            let room = (BYTES - self.data.len()) as u64;
            let part = Extent::new(rest.offset, rest.len.min(room));
            let start = self.data.len();
            self.data.resize(start + part.len as usize, 0);
            cursor.gather(&mut self.data[start..]);
            self.pieces.push(part);
            rest = Extent::new(part.end(), rest.len - part.len);
            if self.data.len() == BYTES || self.pieces.len() == PIECES {
                self.store()?;
            }
        }
        Ok(())
    }

    fn store(&mut self) -> Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let (mut rest, mut pieces) = (&*self.data, Vec::with_capacity(self.pieces.len()));
        for piece in &self.pieces {
            let (data, behind) = rest.split_at(piece.len as usize);
            pieces.push((piece.offset, data));
            rest = behind;
        }
        let outcome = (self.store)(&pieces);
        self.bytes += outcome.bytes;
        self.data.clear();
        self.pieces.clear();
        outcome.result
    }
}

/// Fills a buffer with ranges of a file, one behind the other.
type Load<'a> = dyn FnMut(&mut [u8], &[Extent]) -> Outcome + 'a;

/// Reads the bytes of `view` from data byte `pos` on into `memory`: `load` gets room for ranges of
/// the file, until it fails or returns fewer bytes, because the file ends.
///
/// # Errors
/// That of `load`; `Arg` if a piece ends behind the largest file; `NoMem`.
pub fn read_in_portions(view: &View, pos: u64, memory: &Memory, load: &mut Load<'_>) -> Outcome {
    let mut bytes = 0;
    let result = read_portions(view, pos, memory, load, &mut bytes);
    Outcome { bytes, result }
}

fn read_portions(
    view: &View,
    pos: u64,
    memory: &Memory,
    load: &mut Load<'_>,
    bytes: &mut u64,
) -> Result<()> {
    let mut whole = memory.clone();
    let mut room = Vec::new();
    let (mut ranges, mut extents) = (Vec::new(), Cut(view.extents(pos, memory.len()), None));
    loop {
        ranges.clear();
        let len = extents.portion(&mut ranges)?;
        if len == 0 {
            return Ok(());
        }
        let start = *bytes as usize;
        let outcome = match whole.as_mut_slice() {
            Some(all) => load(&mut all[start..start + len], &ranges),
            None => {
                if room.len() < len {
                    room = aggio_base::allocate::zeros(len)?;
                }
                let outcome = load(&mut room[..len], &ranges);
                memory.scatter(*bytes, &room[..outcome.bytes as usize]);
                outcome
            }
        };
        *bytes += outcome.bytes;
        outcome.result?;
        if outcome.bytes < len as u64 {
            return Ok(());
        }
    }
}

/// Extents, and the rest of the last one.
struct Cut<I>(I, Option<Extent>);

impl<I: Iterator<Item = Extent>> Cut<I> {
    /// The ranges of the next portion, neighbours joined; how many bytes they have.
    fn portion(&mut self, ranges: &mut Vec<Extent>) -> Result<usize> {
        let mut len = 0;
        while len < BYTES && ranges.len() < PIECES {
            let Some(extent) = self.1.take().or_else(|| self.0.next()) else { break };
            generic::check_range(extent.offset, extent.len)?;
            let part = Extent::new(extent.offset, extent.len.min((BYTES - len) as u64));
            if part.len < extent.len {
                self.1 = Some(Extent::between(part.end(), extent.end()));
            }
            len += part.len as usize;
            match ranges.last_mut().filter(|last| last.end() == part.offset) {
                Some(last) => last.len += part.len,
                None => ranges.push(part),
            }
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_types::datatype::Datatype;
    use aggio_types::view::Representation;

    /// Stores `len` bytes that alternate with gaps of one byte; returns the file and its requests.
    fn stored(len: usize) -> (Vec<u8>, Vec<usize>) {
        let piece = Datatype::bytes(1).resized(0, 2).unwrap();
        let view = View::new(7, Datatype::bytes(1), piece, Representation::Native, true).unwrap();
        let mut bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        // SAFETY: the bytes outlive the value.
        let memory =
            unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), bytes.len() as u64) };
        let (mut file, mut requests) = (vec![0; 7 + 2 * len], Vec::new());
        let outcome = write_in_portions(&view, 0, &memory, &mut |pieces| {
            requests.push(pieces.len());
            for (at, data) in pieces {
                file[*at as usize..][..data.len()].copy_from_slice(data);
            }
            Outcome { bytes: pieces.len() as u64, result: Ok(()) }
        });
        assert_eq!((outcome.bytes, outcome.result), (len as u64, Ok(())));
        let found = file[7..].iter().step_by(2).copied().take(len).collect();
        assert_eq!(found, bytes);
        (found, requests)
    }

    #[test]
    fn pieces_are_stored_in_portions_of_bounded_size() {
        assert_eq!(stored(PIECES + 3).1, [PIECES, 3]);
        assert_eq!(stored(0).1, [0; 0]);
    }

    #[test]
    fn what_is_stored_before_an_error_is_counted_and_nothing_comes_after_it() {
        let view = View::bytes();
        let mut bytes = vec![1; 2 * BYTES];
        // SAFETY: the bytes outlive the value.
        let memory =
            unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), bytes.len() as u64) };
        let mut attempts = 0;
        let outcome = write_in_portions(&view, 0, &memory, &mut |_| {
            attempts += 1;
            let full = Error::new(ErrorClass::NoSpace, "no room");
            Outcome { bytes: 10, result: Err(full) }
        });
        assert_eq!((attempts, outcome.bytes), (1, 10));
        assert_eq!(outcome.result.unwrap_err().class(), ErrorClass::NoSpace);
    }

    /// Every second byte from byte 7 on.
    fn comb() -> View {
        let piece = Datatype::bytes(1).resized(0, 2).unwrap();
        View::new(7, Datatype::bytes(1), piece, Representation::Native, true).unwrap()
    }

    /// Loads a file of `size` bytes, each its own offset modulo 251, into `memory`; returns the
    /// lengths of the requests, and the number of bytes in the outcome.
    fn loaded(memory: &Memory, size: u64) -> (Vec<usize>, u64) {
        let mut requests = Vec::new();
        let outcome = read_in_portions(&comb(), 0, memory, &mut |buffer, ranges| {
            assert!(buffer.len() <= BYTES && ranges.len() <= PIECES);
            assert_eq!(ranges.iter().map(|range| range.len).sum::<u64>(), buffer.len() as u64);
            requests.push(buffer.len());
            let offsets = ranges.iter().flat_map(|range| range.offset..range.end());
            let bytes = offsets.take_while(|at| *at < size).zip(buffer);
            let bytes = bytes.map(|(at, byte)| *byte = (at % 251) as u8).count() as u64;
            Outcome { bytes, result: Ok(()) }
        });
        assert_eq!(outcome.result, Ok(()));
        (requests, outcome.bytes)
    }

    #[test]
    fn pieces_are_loaded_in_portions_of_bounded_size_up_to_the_end_of_the_file() {
        for (len, size, requests, count) in [
            (PIECES + 3, u64::MAX, vec![PIECES, 3], PIECES + 3),
            (PIECES + 3, 7 + 2 * 10, vec![PIECES], 10),
            (PIECES + 3, 7 + 2 * (PIECES as u64 + 1), vec![PIECES, 3], PIECES + 1),
            (0, u64::MAX, vec![], 0),
        ] {
            let expected = |n: usize| if n < count { ((7 + 2 * n) % 251) as u8 } else { 0 };
            let mut bytes = vec![0; len];
            // SAFETY: the bytes outlive the value.
            let memory = unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), len as u64) };
            assert_eq!(loaded(&memory, size), (requests.clone(), count as u64));
            assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == expected(n)));
            // Memory with gaps, which keep their bytes.
            let mut bytes = vec![0xEE; 3 * len];
            bytes.iter_mut().step_by(3).for_each(|byte| *byte = 0);
            let spread = Datatype::bytes(1).resized(0, 3).unwrap();
            // SAFETY: as above.
            let memory = unsafe { Memory::new(bytes.as_mut_ptr(), spread, len as u64) };
            assert_eq!(loaded(&memory, size), (requests, count as u64));
            let expected = |n: usize| if n.is_multiple_of(3) { expected(n / 3) } else { 0xEE };
            assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == expected(n)));
        }
    }

    #[test]
    fn a_long_piece_is_loaded_in_several_portions_and_neighbours_are_one_range() {
        let mut bytes = vec![0; BYTES + 5];
        // SAFETY: the bytes outlive the value.
        let memory =
            unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), bytes.len() as u64) };
        let mut asked = Vec::new();
        let outcome = read_in_portions(&View::bytes(), 3, &memory, &mut |buffer, ranges| {
            asked.extend_from_slice(ranges);
            Outcome { bytes: buffer.len() as u64, result: Ok(()) }
        });
        assert_eq!((outcome.bytes, outcome.result), (BYTES as u64 + 5, Ok(())));
        assert_eq!(asked, [Extent::new(3, BYTES as u64), Extent::new(3 + BYTES as u64, 5)]);
    }

    #[test]
    fn nothing_is_loaded_behind_an_error_and_what_came_before_is_counted() {
        let mut bytes = vec![0; 2 * BYTES];
        // SAFETY: the bytes outlive the value.
        let memory =
            unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), bytes.len() as u64) };
        let mut attempts = 0;
        let outcome = read_in_portions(&View::bytes(), 0, &memory, &mut |buffer, _| {
            attempts += 1;
            match attempts {
                1 => Outcome { bytes: buffer.len() as u64, result: Ok(()) },
                _ => Outcome { bytes: 0, result: Err(Error::new(ErrorClass::Io, "damaged")) },
            }
        });
        assert_eq!((attempts, outcome.bytes), (2, BYTES as u64));
        assert_eq!(outcome.result.unwrap_err().class(), ErrorClass::Io);
    }
}

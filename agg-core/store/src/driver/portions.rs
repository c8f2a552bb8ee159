//! Scattered data, gathered in memory a portion at a time, with the pieces of file that it is for.

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

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_types::datatype::Datatype;
    use aggio_types::view::Representation;

    /// What is stored of `len` bytes that alternate with gaps of one byte, in which requests.
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
}

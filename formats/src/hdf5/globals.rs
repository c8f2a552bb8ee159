//! Global heaps: where lists and texts of any length lie.

use super::reader::Reader;
use crate::error::Result;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

const WHAT: &str = "global heap";

/// A heap: its bytes, and where in them each object lies.
struct Heap {
    address: u64,
    bytes: Vec<u8>,
    objects: HashMap<u32, Range<usize>>,
}

/// Heaps that are kept at most, and their bytes together but for the last one: elements that follow
/// each other may lie in several.
const KEPT: (usize, usize) = (64, 1 << 20);

/// The heaps of a file. Those that were used last are kept, the last one first.
#[derive(Default)]
pub(super) struct Heaps(RefCell<VecDeque<Heap>>);

impl Heaps {
    /// The list that an element stands for: its number of elements, and their bytes.
    pub(super) fn list(&self, reader: &Reader<'_>, element: &[u8]) -> Result<(u64, Vec<u8>)> {
        let mut cursor = reader.cursor(element);
        let parts = cursor.four().zip(cursor.address()).zip(cursor.four());
        let ((count, heap), index) = parts.ok_or_else(|| reader.corrupt("a list is malformed"))?;
        match heap {
            Some(heap) if heap != 0 && count > 0 => {
                Ok((count.into(), self.object(reader, heap, index)?))
            }
            _ => Ok((0, Vec::new())),
        }
    }

    /// An object of the heap at an address.
    fn object(&self, reader: &Reader<'_>, address: u64, index: u32) -> Result<Vec<u8>> {
        let mut kept = self.0.borrow_mut();
        let known = kept.iter().position(|heap| heap.address == address);
        let heap = match known.and_then(|place| kept.remove(place)) {
            Some(heap) => heap,
            None => read(reader, address)?,
        };
        let found = heap.objects.get(&index).map(|range| heap.bytes[range.clone()].to_vec());
        kept.push_front(heap);
        let bytes = |kept: &VecDeque<Heap>| kept.iter().map(|heap| heap.bytes.len()).sum::<usize>();
        while kept.len() > 1 && (kept.len() > KEPT.0 || bytes(&kept) > KEPT.1) {
            kept.pop_back();
        }
        let missing = || reader.corrupt(format!("no object {index} in the {WHAT} at {address}"));
        let found = found.ok_or_else(missing)?;
        reader.step(found.len() as u64)?;
        Ok(found)
    }
}

fn read(reader: &Reader<'_>, address: u64) -> Result<Heap> {
    let length = reader.widths.length;
    let head = reader.bytes(WHAT, address, 8 + length as u64)?;
    let mut cursor = reader.cursor(&head);
    let is_one = cursor.take(8).is_some_and(|start| start.starts_with(b"GCOL\x01"));
    let size = cursor.length().filter(|_| is_one);
    let size = size.ok_or_else(|| reader.corrupt(format!("no {WHAT} at {address}")))?;
    let bytes = reader.bytes(WHAT, address, size)?;
    reader.note(address, size);
    let mut cursor = reader.cursor(&bytes);
    cursor.take(8 + length);
    let mut next = || {
        let (index, _references) = (cursor.two()?, cursor.two()?);
        cursor.take(4)?;
        let size = usize::try_from(cursor.length()?).ok()?;
        let start = bytes.len() - cursor.rest().len();
        // The object 0 is the free space, up to the end.
        cursor.take(size.checked_next_multiple_of(8)?).filter(|_| index != 0)?;
        Some((u32::from(index), start..start + size))
    };
    let mut objects = HashMap::new();
    while let Some((index, range)) = next() {
        reader.step(0)?;
        objects.insert(index, range);
    }
    Ok(Heap { address, bytes, objects })
}

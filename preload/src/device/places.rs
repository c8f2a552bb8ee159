//! Where the bytes of a buffer are, and copies between them and memory of the host.

use super::driver::{Piece, Place};
use super::libraries::drivers;
use agg_core::Result;
use agg_core::file::Direction;
use agg_core::memory::Memory;
use std::collections::HashMap;

/// Bytes of the smallest page: its memory is of the host, or of one device.
const PAGE: usize = 4096;

/// Equal runs at equal distances that are looked at one by one. More of them are parts of one
/// array, so the first ones and the last tell where all are.
const FEW: u64 = 64;

/// Where the drivers say that the byte at an address is.
fn ask(address: usize) -> Result<Option<Place>> {
    for driver in drivers() {
        let found = driver.place(address)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Answers of drivers, by page.
#[derive(Default)]
pub(super) struct Places {
    known: HashMap<usize, Option<Place>>,
    last: Option<(usize, Option<Place>)>,
}

impl Places {
    /// Where the byte at an address is; `None` for memory of the host.
    fn of(&mut self, address: usize) -> Result<Option<Place>> {
        let page = address / PAGE;
        if let Some((_, place)) = self.last.filter(|(last, _)| *last == page) {
            return Ok(place);
        }
        let place = match self.known.get(&page) {
            Some(place) => *place,
            None => {
                let found = ask(address)?;
                self.known.insert(page, found);
                found
            }
        };
        self.last = Some((page, place));
        Ok(place)
    }

    /// Some device memory in the buffer; `None` if all is memory of the host.
    pub(super) fn device_in(&mut self, memory: &Memory) -> Result<Option<Place>> {
        let Some((first, _)) = memory.cursor(0).run() else { return Ok(None) };
        let place = ask(first as usize)?;
        if place.is_some() || memory.is_contiguous() {
            return Ok(place);
        }
        let base = (first as usize as i64).wrapping_sub(memory.datatype().first_displacement());
        let mut cursor = memory.datatype().cursor(memory.count(), 0);
        loop {
            if let Some(rows) = cursor.take_rows(u64::MAX) {
                for row in (0..rows.count.min(FEW)).chain([rows.count - 1]) {
                    let distance = (row as i64).wrapping_mul(rows.stride);
                    let at = base.wrapping_add(rows.displacement).wrapping_add(distance);
                    if let Some(place) = self.of(at as usize)? {
                        return Ok(Some(place));
                    }
                }
            } else if let Some((displacement, len)) = cursor.run() {
                if let Some(place) = self.of(base.wrapping_add(displacement) as usize)? {
                    return Ok(Some(place));
                }
                cursor.advance(len);
            } else {
                return Ok(None);
            }
        }
    }

    /// Copies `len` data bytes of the buffer from `position` on: to the buffer for a read of the
    /// file, from it for a write. `host` says where the bytes from a position and address on lie
    /// in the other memory.
    ///
    /// # Errors
    /// That of a driver.
    ///
    /// # Safety
    /// The buffer is valid, and `host` leads to memory for each run of its bytes.
    pub(super) unsafe fn copy(
        &mut self,
        memory: &Memory,
        direction: Direction,
        (position, len): (u64, u64),
        host: impl Fn(u64, usize) -> *mut u8,
    ) -> Result<()> {
        let (mut cursor, end) = (memory.cursor(position), position.saturating_add(len));
        while cursor.position() < end {
            let Some((start, run)) = cursor.run() else { break };
            let left = usize::try_from(end - cursor.position()).unwrap_or(usize::MAX);
            let (len, other) = (run.min(left), host(cursor.position(), start as usize));
            match self.of(start as usize)? {
                Some(place) => {
                    let piece = Piece { device: start as usize, host: other, len };
                    // SAFETY: the caller's promise.
                    unsafe { place.driver.copy(place, direction, piece)? };
                }
                // SAFETY: the caller's promise; the two memories are different ones.
                None => unsafe {
                    match direction {
                        Direction::Read => std::ptr::copy_nonoverlapping(other, start, len),
                        Direction::Write => std::ptr::copy_nonoverlapping(start, other, len),
                    }
                },
            }
            cursor.advance(len as u64);
        }
        Ok(())
    }
}

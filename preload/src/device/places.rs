//! Where the bytes of a buffer are, and copies between them and memory of the host.

use super::api::{self, Piece, Place};
use super::libraries::apis;
use agg_core::Result;
use agg_core::datatype::Rows;
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
    for driver in apis() {
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
        let base = base_of(memory);
        let mut cursor = memory.datatype().cursor(memory.count(), 0);
        loop {
            if let Some(rows) = cursor.take_rows(u64::MAX) {
                for row in (0..rows.count.min(FEW)).chain([rows.count - 1]) {
                    let place = self.of(address(base, rows, row))?;
                    if place.is_some() {
                        return Ok(place);
                    }
                }
            } else if let Some((displacement, len)) = cursor.run() {
                let place = self.of(base.wrapping_add(displacement) as usize)?;
                if place.is_some() {
                    return Ok(place);
                }
                cursor.advance(len);
            } else {
                return Ok(None);
            }
        }
    }

    /// The place of equal runs at equal distances, if all are at one of a device.
    fn of_rows(&mut self, base: i64, rows: Rows) -> Result<Option<Place>> {
        let Some(first) = self.of(address(base, rows, 0))? else { return Ok(None) };
        for row in (1..rows.count.min(FEW)).chain([rows.count - 1]) {
            let other = self.of(address(base, rows, row))?;
            if !other.is_some_and(|other| first.joins(&other)) {
                return Ok(None);
            }
        }
        Ok(Some(first))
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
        let (base, end) = (base_of(memory), position.saturating_add(len));
        let mut cursor = memory.datatype().cursor(memory.count(), position);
        while cursor.position() < end {
            let (at, left) = (cursor.position(), end - cursor.position());
            if let Some(rows) = cursor.take_rows(left) {
                // SAFETY: the caller's promise.
                unsafe { self.copy_rows(base, rows, direction, at, &host)? };
                continue;
            }
            let Some((displacement, run)) = cursor.run() else { break };
            let (start, len) = (base.wrapping_add(displacement) as usize, run.min(left));
            // SAFETY: the caller's promise.
            unsafe { self.copy_run(start, len as usize, direction, host(at, start))? };
            cursor.advance(len);
        }
        Ok(())
    }

    /// Copies equal runs, the first at data byte `position`: at once if a driver can do that.
    ///
    /// # Safety
    /// As for [`Places::copy`].
    unsafe fn copy_rows(
        &mut self,
        base: i64,
        rows: Rows,
        direction: Direction,
        position: u64,
        host: &impl Fn(u64, usize) -> *mut u8,
    ) -> Result<()> {
        let other = |row: u64| host(position + row * rows.len, address(base, rows, row));
        let pitch = usize::try_from(rows.stride).ok().filter(|pitch| *pitch >= rows.len as usize);
        if let (Some(place), Some(device_pitch)) = (self.of_rows(base, rows)?, pitch) {
            let first =
                Piece { device: address(base, rows, 0), host: other(0), len: rows.len as usize };
            let rows = api::Rows {
                first,
                count: rows.count as usize,
                device_pitch,
                host_pitch: (other(1) as usize).wrapping_sub(other(0) as usize),
            };
            // SAFETY: the caller's promise.
            if unsafe { place.api.copy_rows(place, direction, rows) } {
                return Ok(());
            }
        }
        for row in 0..rows.count {
            let start = address(base, rows, row);
            // SAFETY: the caller's promise.
            unsafe { self.copy_run(start, rows.len as usize, direction, other(row))? };
        }
        Ok(())
    }

    /// Copies a run of bytes.
    ///
    /// # Safety
    /// The run is valid, in the buffer at `start` and in the other memory.
    unsafe fn copy_run(
        &mut self,
        start: usize,
        len: usize,
        direction: Direction,
        host: *mut u8,
    ) -> Result<()> {
        let buffer = start as *mut u8;
        match self.of(start)? {
            // SAFETY: the caller's promise.
            Some(place) => unsafe {
                place.api.copy(place, direction, Piece { device: start, host, len })
            },
            None => {
                let (from, to) = match direction {
                    Direction::Read => (host, buffer),
                    Direction::Write => (buffer, host),
                };
                // SAFETY: the caller's promise; the two memories are different ones.
                unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
                Ok(())
            }
        }
    }
}

/// The address from which a buffer's displacements count.
fn base_of(memory: &Memory) -> i64 {
    let first = memory.cursor(0).run().map_or(0, |(first, _)| first as usize);
    (first as i64).wrapping_sub(memory.datatype().first_displacement())
}

/// The address of a row.
fn address(base: i64, rows: Rows, row: u64) -> usize {
    let distance = (row as i64).wrapping_mul(rows.stride);
    base.wrapping_add(rows.displacement).wrapping_add(distance) as usize
}

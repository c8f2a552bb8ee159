//! Copying between a rank's buffer and a range of the file in memory, piece by piece, in one pass.
//!
//! That range, a window, is shared memory in which other ranks copy at the same time, so it is
//! reached through raw pointers. Where the buffer has gaps of its own, its bytes are first gathered
//! into a small block that stays in the processor's cache.

use crate::datatype::Rows;
use crate::memory::{Memory, MemoryCursor};
use crate::view::View;
use aggio_base::Extent;

/// The data of one window that one rank brings or gets: a range of its view's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The window.
    pub window: Extent,
    /// First byte, counted in the view's data.
    pub position: u64,
    /// Number of bytes, at least 1.
    pub len: usize,
}

/// A rank's data: the bytes of a view from data byte `position` on, and the memory for them.
#[derive(Clone, Copy)]
pub struct Data<'a> {
    /// The view.
    pub view: &'a View,
    /// The data byte of the view that the first of `memory` is.
    pub position: u64,
    /// The rank's buffer.
    pub memory: &'a Memory,
}

/// Runs of the buffer of at least this length are copied from where they are.
const DIRECT: usize = 4096;

/// Bytes of the block.
const BLOCK: usize = 16 << 10;

/// Copies the data of `part` to its places in the window at `window`.
///
/// # Safety
/// All bytes of `part.window` must be writable at `window`; none of the part may be read meanwhile.
#[inline]
pub unsafe fn put(request: Data<'_>, part: Part, window: *mut u8) {
    let view = request.view;
    each_run(request, part, |run, data, cursor| {
        // SAFETY: the run's bytes are readable at `data`; the caller guarantees the window.
        let copy = |from: *const u8| unsafe { put_run(view, run, from, window) };
        match data {
            Bytes::There(address) => {
                copy(address);
                cursor.advance(run.len as u64);
            }
            Bytes::Block(block) => {
                cursor.gather(block);
                copy(block.as_ptr());
            }
        }
    });
}

/// Copies the data of `part` from the window at `window` to the buffer.
///
/// # Safety
/// All bytes of `part.window` must be readable at `window`.
#[inline]
pub unsafe fn get(request: Data<'_>, part: Part, window: *const u8) {
    let view = request.view;
    each_run(request, part, |run, data, cursor| {
        // SAFETY: the run's bytes are writable at `data`; the caller guarantees the window.
        let copy = |to: *mut u8| unsafe { get_run(view, run, to, window) };
        match data {
            Bytes::There(address) => {
                copy(address);
                cursor.advance(run.len as u64);
            }
            Bytes::Block(block) => {
                copy(block.as_mut_ptr());
                cursor.scatter(block);
            }
        }
    });
}

/// Where some bytes of the buffer are to be copied from or to.
enum Bytes<'a> {
    /// At their place in memory.
    There(*mut u8),
    /// In a block, which must then be gathered or scattered.
    Block(&'a mut [u8]),
}

/// Calls `copy` for all data of `part`, piece by piece. It has to pass over the piece in memory.
fn each_run(
    request: Data<'_>,
    part: Part,
    mut copy: impl FnMut(Part, Bytes<'_>, &mut MemoryCursor),
) {
    let mut block = Vec::new();
    let mut cursor = request.memory.cursor(part.position - request.position);
    let mut done = 0;
    while done < part.len {
        let left = part.len - done;
        // A request has as many bytes in memory as in the view.
        let Some((address, run)) = cursor.run() else { return };
        let there = run >= DIRECT.min(left);
        let len = left.min(if there { run } else { BLOCK });
        let here = Part { position: part.position + done as u64, len, ..part };
        if there {
            copy(here, Bytes::There(address), &mut cursor);
        } else {
            block.resize(len, 0);
            copy(here, Bytes::Block(&mut block), &mut cursor);
        }
        done += len;
    }
}

/// The place of rows of the file in a window that starts at file byte `start`.
fn place(rows: Rows, start: u64) -> usize {
    (rows.displacement as u64 - start) as usize
}

unsafe fn put_run(view: &View, part: Part, mut data: *const u8, window: *mut u8) {
    for rows in view.rows(part.position, part.len as u64) {
        let to = window.wrapping_add(place(rows, part.window.offset));
        let (len, stride, count) = (rows.len as usize, rows.stride as usize, rows.count as usize);
        // SAFETY: the rows lie in the window, and `len * count` bytes follow at `data`.
        unsafe { spread(data, to, len, len, stride, count) };
        data = data.wrapping_add(len * count);
    }
}

unsafe fn get_run(view: &View, part: Part, mut data: *mut u8, window: *const u8) {
    for rows in view.rows(part.position, part.len as u64) {
        let from = window.wrapping_add(place(rows, part.window.offset));
        let (len, stride, count) = (rows.len as usize, rows.stride as usize, rows.count as usize);
        // SAFETY: the rows lie in the window, and there is room for `len * count` bytes at `data`.
        unsafe { spread(from, data, len, stride, len, count) };
        data = data.wrapping_add(len * count);
    }
}

/// Copies `count` runs of `len` bytes that are `apart` bytes apart at `from`, to places `distant`
/// bytes apart.
///
/// # Safety
/// All runs must be readable and all places writable, and they must not overlap.
unsafe fn spread(
    from: *const u8,
    to: *mut u8,
    len: usize,
    apart: usize,
    distant: usize,
    count: usize,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        match len {
            1 => spread_fixed::<1>(from, to, apart, distant, count),
            2 => spread_fixed::<2>(from, to, apart, distant, count),
            4 => spread_fixed::<4>(from, to, apart, distant, count),
            8 => spread_fixed::<8>(from, to, apart, distant, count),
            12 => spread_fixed::<12>(from, to, apart, distant, count),
            16 => spread_fixed::<16>(from, to, apart, distant, count),
            24 => spread_fixed::<24>(from, to, apart, distant, count),
            32 => spread_fixed::<32>(from, to, apart, distant, count),
            40 => spread_fixed::<40>(from, to, apart, distant, count),
            64 => spread_fixed::<64>(from, to, apart, distant, count),
            128 => spread_fixed::<128>(from, to, apart, distant, count),
            _ => spread_any(from, to, len, apart, distant, count),
        }
    }
}

/// # Safety
/// As for [`spread`].
unsafe fn spread_fixed<const N: usize>(
    mut from: *const u8,
    mut to: *mut u8,
    apart: usize,
    distant: usize,
    count: usize,
) {
    for _ in 0..count {
        // SAFETY: as promised by the caller; arrays of bytes need no alignment.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
        from = from.wrapping_add(apart);
        to = to.wrapping_add(distant);
    }
}

/// # Safety
/// As for [`spread`].
unsafe fn spread_any(
    mut from: *const u8,
    mut to: *mut u8,
    len: usize,
    apart: usize,
    distant: usize,
    count: usize,
) {
    for _ in 0..count {
        // SAFETY: as promised by the caller.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        from = from.wrapping_add(apart);
        to = to.wrapping_add(distant);
    }
}

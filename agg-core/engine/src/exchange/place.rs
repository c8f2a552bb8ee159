//! Copying packed data to and from its places in a window.

use super::coverage::Coverage;
use super::share::Part;
use aggio_base::Result;
use aggio_types::datatype::Rows;
use aggio_types::view::View;

/// The place of rows of the file in a window that starts at `window`: start and distance.
fn within(rows: Rows, window: u64) -> (usize, usize) {
    ((rows.displacement as u64 - window) as usize, rows.stride as usize)
}

/// Puts the packed data of `part` at its place in `window`, and notes the bytes in `coverage`.
pub(super) fn unpack(
    view: &View,
    part: Part,
    packed: &[u8],
    window: &mut [u8],
    coverage: &mut Coverage,
) {
    let mut rest = packed;
    for rows in view.rows(part.position, packed.len() as u64) {
        let (start, stride) = within(rows, part.window.offset);
        let (len, count) = (rows.len as usize, rows.count as usize);
        let (source, more) = rest.split_at(len * count);
        rest = more;
        match len {
            1 => unpack_fixed::<1>(source, window, start, stride),
            2 => unpack_fixed::<2>(source, window, start, stride),
            4 => unpack_fixed::<4>(source, window, start, stride),
            8 => unpack_fixed::<8>(source, window, start, stride),
            16 => unpack_fixed::<16>(source, window, start, stride),
            32 => unpack_fixed::<32>(source, window, start, stride),
            _ => {
                for (row, chunk) in source.chunks_exact(len).enumerate() {
                    let at = start + row * stride;
                    window[at..at + len].copy_from_slice(chunk);
                }
            }
        }
        coverage.add_rows(start, len, stride, count);
    }
}

fn unpack_fixed<const N: usize>(source: &[u8], window: &mut [u8], start: usize, stride: usize) {
    let mut at = start;
    for chunk in source.chunks_exact(N) {
        window[at..at + N].copy_from_slice(chunk);
        at += stride;
    }
}

/// Notes the bytes of `part` in `coverage`.
pub(super) fn mark(view: &View, part: Part, coverage: &mut Coverage) {
    for rows in view.rows(part.position, part.len as u64) {
        let (start, stride) = within(rows, part.window.offset);
        coverage.add_rows(start, rows.len as usize, stride, rows.count as usize);
    }
}

/// The first `len` bytes of `part`, from their places in `window`.
///
/// # Errors
/// `NoMem` if there is no memory for them.
pub(super) fn pack(view: &View, part: Part, len: usize, window: &[u8]) -> Result<Vec<u8>> {
    let mut packed = aggio_base::allocate::zeros(len)?;
    let mut rest = &mut packed[..];
    for rows in view.rows(part.position, len as u64) {
        let (start, stride) = within(rows, part.window.offset);
        let len = rows.len as usize;
        let (target, more) = rest.split_at_mut(len * rows.count as usize);
        rest = more;
        match len {
            1 => pack_fixed::<1>(window, target, start, stride),
            2 => pack_fixed::<2>(window, target, start, stride),
            4 => pack_fixed::<4>(window, target, start, stride),
            8 => pack_fixed::<8>(window, target, start, stride),
            16 => pack_fixed::<16>(window, target, start, stride),
            32 => pack_fixed::<32>(window, target, start, stride),
            _ => {
                for (row, chunk) in target.chunks_exact_mut(len).enumerate() {
                    let at = start + row * stride;
                    chunk.copy_from_slice(&window[at..at + len]);
                }
            }
        }
    }
    Ok(packed)
}

fn pack_fixed<const N: usize>(window: &[u8], target: &mut [u8], start: usize, stride: usize) {
    let mut at = start;
    for chunk in target.chunks_exact_mut(N) {
        chunk.copy_from_slice(&window[at..at + N]);
        at += stride;
    }
}

//! Copying many short runs that lie at equal distances.

use crate::datatype::Rows;

/// Runs longer than this are worth a `memcpy` each, at any distance.
pub(super) const LONGEST: u64 = 512;

/// Copies runs in memory to `destination`, which they fill exactly.
///
/// # Safety
///
/// All runs, with displacements from `base`, must be readable and outside `destination`.
pub(super) unsafe fn gather(base: *const u8, rows: Rows, destination: &mut [u8]) {
    let first = base.wrapping_offset(rows.displacement as isize);
    // SAFETY: the caller's promise, and `N` is the length of each run.
    unsafe {
        match rows.len {
            1 => gather_fixed::<1>(first, rows.stride, destination),
            2 => gather_fixed::<2>(first, rows.stride, destination),
            4 => gather_fixed::<4>(first, rows.stride, destination),
            8 => gather_fixed::<8>(first, rows.stride, destination),
            12 => gather_fixed::<12>(first, rows.stride, destination),
            16 => gather_fixed::<16>(first, rows.stride, destination),
            24 => gather_fixed::<24>(first, rows.stride, destination),
            32 => gather_fixed::<32>(first, rows.stride, destination),
            64 => gather_fixed::<64>(first, rows.stride, destination),
            128 => gather_fixed::<128>(first, rows.stride, destination),
            len => gather_any(first, rows.stride, len as usize, destination),
        }
    }
}

/// # Safety
///
/// A run of `N` bytes for each chunk of `destination` must be readable, `stride` apart.
unsafe fn gather_fixed<const N: usize>(mut run: *const u8, stride: i64, destination: &mut [u8]) {
    for chunk in destination.chunks_exact_mut(N) {
        // SAFETY: the caller promises this run; arrays of bytes need no alignment.
        let bytes = unsafe { run.cast::<[u8; N]>().read() };
        chunk.copy_from_slice(&bytes);
        run = run.wrapping_offset(stride as isize);
    }
}

/// # Safety
///
/// A run of `len` bytes for each chunk of `destination` must be readable, `stride` apart.
unsafe fn gather_any(mut run: *const u8, stride: i64, len: usize, destination: &mut [u8]) {
    for chunk in destination.chunks_exact_mut(len) {
        // SAFETY: the caller promises this run, and that it does not lie in `destination`.
        unsafe { std::ptr::copy_nonoverlapping(run, chunk.as_mut_ptr(), len) };
        run = run.wrapping_offset(stride as isize);
    }
}

/// Copies `source` to runs in memory, which it fills exactly.
///
/// # Safety
///
/// All runs, with displacements from `base`, must be writable and outside `source`.
pub(super) unsafe fn scatter(base: *mut u8, rows: Rows, source: &[u8]) {
    let first = base.wrapping_offset(rows.displacement as isize);
    // SAFETY: the caller's promise, and `N` is the length of each run.
    unsafe {
        match rows.len {
            1 => scatter_fixed::<1>(first, rows.stride, source),
            2 => scatter_fixed::<2>(first, rows.stride, source),
            4 => scatter_fixed::<4>(first, rows.stride, source),
            8 => scatter_fixed::<8>(first, rows.stride, source),
            12 => scatter_fixed::<12>(first, rows.stride, source),
            16 => scatter_fixed::<16>(first, rows.stride, source),
            24 => scatter_fixed::<24>(first, rows.stride, source),
            32 => scatter_fixed::<32>(first, rows.stride, source),
            64 => scatter_fixed::<64>(first, rows.stride, source),
            128 => scatter_fixed::<128>(first, rows.stride, source),
            len => scatter_any(first, rows.stride, len as usize, source),
        }
    }
}

/// # Safety
///
/// A run of `N` bytes for each chunk of `source` must be writable, `stride` apart.
unsafe fn scatter_fixed<const N: usize>(mut run: *mut u8, stride: i64, source: &[u8]) {
    for chunk in source.chunks_exact(N) {
        let mut bytes = [0; N];
        bytes.copy_from_slice(chunk);
        // SAFETY: the caller promises this run; arrays of bytes need no alignment.
        unsafe { run.cast::<[u8; N]>().write(bytes) };
        run = run.wrapping_offset(stride as isize);
    }
}

/// # Safety
///
/// A run of `len` bytes for each chunk of `source` must be writable, `stride` apart.
unsafe fn scatter_any(mut run: *mut u8, stride: i64, len: usize, source: &[u8]) {
    for chunk in source.chunks_exact(len) {
        // SAFETY: the caller promises this run, and that it does not lie in `source`.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), run, len) };
        run = run.wrapping_offset(stride as isize);
    }
}

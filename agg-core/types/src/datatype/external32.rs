//! The `external32` data representation (MPI-4.1, 14.5.2): big endian, fixed sizes, no padding.
//!
//! A value that does not fit into the other representation (a large `long` in 4 bytes, a wide
//! character outside the basic plane) is an error of class `Conversion`; nothing is cut off.

use super::{Basic, BasicKind};
use crate::memory::Memory;
use aggio_base::error::{Error, ErrorClass, Result};

/// Most native bytes that are converted at a time.
const CHUNK: u64 = 64 * 1024;

/// All data bytes of `memory` in `external32`.
///
/// # Errors
///
/// Class `Conversion` for a value that does not fit, `NoMem` if the result does not.
pub fn encode_external(memory: &Memory) -> Result<Vec<u8>> {
    let datatype = memory.datatype();
    let total = datatype.external_size().checked_mul(memory.count());
    let total = total.and_then(|total| usize::try_from(total).ok());
    let mut out = Vec::new();
    if total.is_none_or(|total| out.try_reserve_exact(total).is_err()) {
        return Err(Error::new(ErrorClass::NoMem, "external32: the data does not fit into memory"));
    }
    let mut cursor = memory.cursor(0);
    let mut native = Vec::new();
    for (basic, mut count) in datatype.elements(memory.count()) {
        while count > 0 {
            let some = count.min(at_once(basic));
            native.resize((some * u64::from(basic.size)) as usize, 0);
            cursor.gather(&mut native);
            to_external(basic, &native, &mut out)?;
            count -= some;
        }
    }
    Ok(out)
}

/// Converts `bytes` from `external32` into `memory`; returns the native bytes stored.
///
/// Only whole elements are stored: for an element cut off by the end of the file nothing is stored,
/// and the memory behind it is unchanged.
///
/// # Errors
///
/// Class `Conversion` for a value that does not fit; the elements of earlier chunks are stored.
pub fn decode_external(bytes: &[u8], memory: &Memory) -> Result<u64> {
    let mut rest = bytes;
    let mut cursor = memory.cursor(0);
    let mut native = Vec::new();
    for (basic, mut count) in memory.datatype().elements(memory.count()) {
        let external_size = basic.external_size as usize;
        while count > 0 {
            let here = rest.len().checked_div(external_size).unwrap_or(0) as u64;
            let some = count.min(at_once(basic)).min(here);
            if some == 0 && external_size > 0 {
                return Ok(cursor.position());
            }
            let some = if external_size == 0 { count.min(at_once(basic)) } else { some };
            let (head, tail) = rest.split_at(some as usize * external_size);
            native.resize((some * u64::from(basic.size)) as usize, 0);
            from_external(basic, head, &mut native)?;
            cursor.scatter(&native);
            rest = tail;
            count -= some;
        }
    }
    Ok(cursor.position())
}

/// Native data bytes that `external` bytes of `memory`'s data in `external32` stand for, whole
/// elements only.
pub fn native_bytes(memory: &Memory, external: u64) -> u64 {
    let (mut native, mut left) = (0u64, external);
    let datatype = memory.datatype();
    let (size, external_size) = (datatype.size(), datatype.external_size());
    let copies = left.checked_div(external_size).unwrap_or(0).min(memory.count());
    native = native.saturating_add(copies.saturating_mul(size));
    left -= copies * external_size;
    for (basic, count) in datatype.elements(u64::from(copies < memory.count())) {
        let fit = left.checked_div(u64::from(basic.external_size)).unwrap_or(count).min(count);
        native += fit * u64::from(basic.size);
        left -= fit * u64::from(basic.external_size);
        if fit < count {
            break;
        }
    }
    native
}

/// How many elements make a chunk.
fn at_once(basic: Basic) -> u64 {
    (CHUNK / u64::from(basic.size.max(1))).max(1)
}

fn misfit(basic: Basic, value: impl std::fmt::Display) -> Error {
    let Basic { kind, size, external_size } = basic;
    Error::new(
        ErrorClass::Conversion,
        format!(
            "external32: {kind:?} {value} ({size} bytes, {external_size} in the file) does not fit"
        ),
    )
}

fn unsupported(basic: Basic) -> Error {
    let Basic { kind, size, external_size } = basic;
    let text =
        format!("external32: no conversion of {kind:?} from {size} to {external_size} bytes");
    Error::new(ErrorClass::Conversion, text)
}

/// Appends the `external32` form of a row of elements.
fn to_external(basic: Basic, native: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (size, external) = (basic.size as usize, basic.external_size as usize);
    if let Some(unit) = swap_unit(basic) {
        let start = out.len();
        out.extend_from_slice(native);
        swap(&mut out[start..], unit);
        return Ok(());
    }
    for element in native.chunks_exact(size) {
        match basic.kind {
            BasicKind::SignedInt if size <= 16 && external <= 16 => {
                let value = sign_extend(load(element), size);
                let fits = sign_extend(value as u128, external) == value;
                store(out, value as u128, external, fits, || misfit(basic, value))?;
            }
            BasicKind::UnsignedInt | BasicKind::WideChar if size <= 16 && external <= 16 => {
                let value = load(element);
                store(out, value, external, width(value) <= external, || misfit(basic, value))?;
            }
            BasicKind::Logical if external <= 16 => {
                let truth = u128::from(element.iter().any(|byte| *byte != 0));
                store(out, truth, external, true, || misfit(basic, truth))?;
            }
            BasicKind::LongDouble if size >= 10 && external == 16 => {
                out.extend_from_slice(&extended_to_quad(load(&element[..10])).to_be_bytes());
            }
            _ => return Err(unsupported(basic)),
        }
    }
    Ok(())
}

/// Converts a row of elements from `external32`; both slices hold the same number of elements.
fn from_external(basic: Basic, bytes: &[u8], native: &mut [u8]) -> Result<()> {
    let (size, external) = (basic.size as usize, basic.external_size as usize);
    if let Some(unit) = swap_unit(basic) {
        native.copy_from_slice(bytes);
        swap(native, unit);
        return Ok(());
    }
    if external == 0 || external > 16 {
        return Err(unsupported(basic));
    }
    for (element, to) in bytes.chunks_exact(external).zip(native.chunks_exact_mut(size)) {
        let value = element.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
        match basic.kind {
            BasicKind::SignedInt if size <= 16 => {
                let value = sign_extend(value, external);
                if sign_extend(value as u128, size) != value {
                    return Err(misfit(basic, value));
                }
                save(to, value as u128);
            }
            BasicKind::UnsignedInt | BasicKind::WideChar if size <= 16 => {
                if width(value) > size {
                    return Err(misfit(basic, value));
                }
                save(to, value);
            }
            BasicKind::Logical if size <= 16 => save(to, u128::from(value != 0)),
            BasicKind::LongDouble if size >= 10 && external == 16 => {
                to.fill(0);
                to[..10].copy_from_slice(&quad_to_extended(value).to_le_bytes()[..10]);
            }
            _ => return Err(unsupported(basic)),
        }
    }
    Ok(())
}

/// The unit in which the byte order changes, if the two forms differ in nothing else.
fn swap_unit(basic: Basic) -> Option<usize> {
    let unit = match basic.kind {
        BasicKind::Logical | BasicKind::LongDouble => return None,
        BasicKind::Opaque | BasicKind::Character => 1,
        _ => basic.size as usize,
    };
    (basic.size == basic.external_size).then_some(unit)
}

/// Changes the byte order of elements of `size` bytes between native and big endian.
fn swap(bytes: &mut [u8], size: usize) {
    if cfg!(target_endian = "big") {
        return;
    }
    match size {
        1 => {}
        2 => swap_words::<2>(bytes),
        4 => swap_words::<4>(bytes),
        8 => swap_words::<8>(bytes),
        _ => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
    }
}

/// With a length known at compile time each reversal is one instruction.
fn swap_words<const N: usize>(bytes: &mut [u8]) {
    for chunk in bytes.chunks_exact_mut(N) {
        if let Ok(word) = <&mut [u8; N]>::try_from(chunk) {
            word.reverse();
        }
    }
}

/// The number in a native element of at most 16 bytes.
fn load(element: &[u8]) -> u128 {
    let mut wide = [0u8; 16];
    if cfg!(target_endian = "big") {
        wide[16 - element.len()..].copy_from_slice(element);
    } else {
        wide[..element.len()].copy_from_slice(element);
    }
    u128::from_ne_bytes(wide)
}

/// Puts the low bytes of `value` into a native element.
fn save(element: &mut [u8], value: u128) {
    let bytes = value.to_ne_bytes();
    let len = element.len();
    element.copy_from_slice(if cfg!(target_endian = "big") {
        &bytes[16 - len..]
    } else {
        &bytes[..len]
    });
}

/// Appends the low `size` bytes in big endian.
fn store(
    out: &mut Vec<u8>,
    value: u128,
    size: usize,
    fits: bool,
    error: impl Fn() -> Error,
) -> Result<()> {
    if !fits {
        return Err(error());
    }
    out.extend_from_slice(&value.to_be_bytes()[16 - size..]);
    Ok(())
}

fn sign_extend(value: u128, size: usize) -> i128 {
    let shift = 128 - 8 * size as u32;
    if shift == 128 { 0 } else { (value << shift) as i128 >> shift }
}

/// Bytes that `value` needs.
fn width(value: u128) -> usize {
    (128 - value.leading_zeros()).div_ceil(8) as usize
}

const EXPONENT: u128 = 0x7fff;

/// An 80-bit x87 number as binary128: both have 15 bits of exponent with the same bias.
fn extended_to_quad(x: u128) -> u128 {
    let sign = x >> 79 & 1;
    let exponent = x >> 64 & EXPONENT;
    let integer = x >> 63 & 1;
    let fraction = x & ((1 << 63) - 1);
    let (exponent, fraction) = match (exponent, integer) {
        // A pseudo-denormal has the value of the smallest normal exponent.
        (0, 1) => (1, fraction),
        (0, _) | (_, 1) => (exponent, fraction),
        // Without the integer bit the processor calls it invalid.
        _ => (EXPONENT, 1 << 62),
    };
    sign << 127 | exponent << 112 | fraction << 49
}

/// A binary128 number as 80-bit x87, rounded to nearest even.
fn quad_to_extended(x: u128) -> u128 {
    let sign = x >> 127;
    let mut exponent = x >> 112 & EXPONENT;
    let fraction = x & ((1 << 112) - 1);
    let (mut kept, cut) = (fraction >> 49, fraction & ((1 << 49) - 1));
    if exponent == EXPONENT {
        // A NaN stays one even if only the bits that are cut off say so.
        kept |= u128::from(fraction != 0 && kept == 0) << 62;
        return sign << 79 | exponent << 64 | 1 << 63 | kept;
    }
    let half = 1 << 48;
    kept += u128::from(cut > half || (cut == half && kept & 1 == 1));
    if kept >> 63 == 1 {
        (exponent, kept) = (exponent + 1, 0);
    }
    let integer = u128::from(exponent != 0);
    sign << 79 | exponent << 64 | integer << 63 | kept
}

#[cfg(test)]
mod tests;

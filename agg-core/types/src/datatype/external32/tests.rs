//! `external32` against bytes made by hand, and there and back again.

use super::*;
use crate::datatype::Datatype;
use crate::datatype::typemap::recipes;
use proptest::prelude::*;

const INT: Basic = Basic::signed(4);
const LONG: Basic = Basic::new(BasicKind::SignedInt, 8, 4);
const UNSIGNED_LONG: Basic = Basic::new(BasicKind::UnsignedInt, 8, 4);
const WIDE: Basic = Basic::new(BasicKind::WideChar, 4, 2);
const LOGICAL: Basic = Basic::new(BasicKind::Logical, 4, 4);
const BOOL: Basic = Basic::new(BasicKind::Logical, 1, 1);
const LONG_DOUBLE: Basic = Basic::new(BasicKind::LongDouble, 16, 16);

fn memory<T>(values: &mut [T], datatype: &Datatype, count: u64) -> Memory {
    assert!(datatype.true_lb() >= 0);
    assert!(datatype.offset_at(datatype.size() * count - 1) < size_of_val(values) as i64);
    // SAFETY: the assertions say that all bytes lie in `values`, which the tests keep alive.
    unsafe { Memory::new(values.as_mut_ptr().cast(), datatype.clone(), count) }
}

fn encoded<T>(values: &mut [T], basic: Basic) -> Result<Vec<u8>> {
    let count = values.len() as u64;
    encode_external(&memory(values, &Datatype::basic(basic), count))
}

fn decoded<T: Default + Clone>(bytes: &[u8], basic: Basic, count: usize) -> Result<Vec<T>> {
    let mut values = vec![T::default(); count];
    decode_external(bytes, &memory(&mut values, &Datatype::basic(basic), count as u64))?;
    Ok(values)
}

#[test]
fn integers_are_big_endian_in_twos_complement() {
    assert_eq!(encoded(&mut [1i32, -2], INT).unwrap(), [0, 0, 0, 1, 255, 255, 255, 254]);
    assert_eq!(encoded(&mut [0x0102u16], Basic::unsigned(2)).unwrap(), [1, 2]);
    assert_eq!(encoded(&mut [-3i64], Basic::signed(8)).unwrap(), (-3i64).to_be_bytes());
}

#[test]
fn a_long_takes_four_bytes() {
    assert_eq!(encoded(&mut [-5i64, 7], LONG).unwrap(), [255, 255, 255, 251, 0, 0, 0, 7]);
    assert_eq!(decoded::<i64>(&[255, 255, 255, 251], LONG, 1).unwrap(), [-5]);
    assert_eq!(encoded(&mut [0xffff_fffeu64], UNSIGNED_LONG).unwrap(), [255, 255, 255, 254]);
    assert_eq!(decoded::<u64>(&[255, 255, 255, 254], UNSIGNED_LONG, 1).unwrap(), [0xffff_fffe]);
}

#[test]
fn a_long_that_does_not_fit_is_a_conversion_error() {
    for value in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
        assert_eq!(encoded(&mut [value], LONG).unwrap_err().class(), ErrorClass::Conversion);
    }
    let error = encoded(&mut [1u64 << 32], UNSIGNED_LONG).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conversion);
}

#[test]
fn floats_are_ieee_in_big_endian() {
    assert_eq!(encoded(&mut [1.0f32], Basic::float(4)).unwrap(), [0x3f, 0x80, 0, 0]);
    assert_eq!(encoded(&mut [-2.5f64], Basic::float(8)).unwrap(), [0xc0, 4, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn bytes_and_characters_are_copied() {
    assert_eq!(encoded(&mut b"abc".to_vec(), Basic::BYTE).unwrap(), b"abc");
    let character = Basic::new(BasicKind::Character, 1, 1);
    assert_eq!(encoded(&mut b"abc".to_vec(), character).unwrap(), b"abc");
}

#[test]
fn every_true_becomes_one() {
    assert_eq!(encoded(&mut [-1i32, 0], LOGICAL).unwrap(), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(encoded(&mut [1u8, 0], BOOL).unwrap(), [1, 0]);
    assert_eq!(decoded::<i32>(&[0, 0, 1, 0, 0, 0, 0, 0], LOGICAL, 2).unwrap(), [1, 0]);
}

#[test]
fn wide_characters_are_utf_16_code_units() {
    assert_eq!(encoded(&mut [0x20acu32], WIDE).unwrap(), [0x20, 0xac]);
    assert_eq!(decoded::<u32>(&[0x20, 0xac], WIDE, 1).unwrap(), [0x20ac]);
    assert_eq!(encoded(&mut [0x1f600u32], WIDE).unwrap_err().class(), ErrorClass::Conversion);
}

/// 80-bit numbers (sign and exponent, mantissa) and the same as binary128.
const LONG_DOUBLES: [(u16, u64, u128); 7] = [
    (0x0000, 0, 0),
    (0x3fff, 1 << 63, 0x3fff << 112),
    (0xc000, 0xa000_0000_0000_0000, 0xc000_4000 << 96),
    (0x4000, 0xc90f_daa2_2168_c235, 0x4000_921f_b544_42d1_846a << 48),
    (0x7fff, 1 << 63, 0x7fff << 112),
    (0xffff, 0xc000_0000_0000_0000, 0xffff_8000 << 96),
    (0x0000, 1, 1 << 49),
];

#[test]
fn long_doubles_become_binary128_and_back() {
    for (high, mantissa, quad) in LONG_DOUBLES {
        let native = u128::from(high) << 64 | u128::from(mantissa);
        let bytes = encoded(&mut [native], LONG_DOUBLE).unwrap();
        assert_eq!(bytes, quad.to_be_bytes(), "{high:x} {mantissa:x}");
        assert_eq!(decoded::<u128>(&bytes, LONG_DOUBLE, 1).unwrap(), [native]);
    }
}

#[test]
fn binary128_is_rounded_to_the_nearest_even_long_double() {
    let one = 0x3fffu128 << 112;
    let extended = |mantissa: u64| 0x3fffu128 << 64 | u128::from(mantissa);
    assert_eq!(quad_to_extended(one | 1 << 48), extended(1 << 63));
    assert_eq!(quad_to_extended(one | 1 << 48 | 1), extended(1 << 63 | 1));
    assert_eq!(quad_to_extended(one | 3 << 48), extended(1 << 63 | 2));
    let largest = one | ((1 << 112) - 1);
    assert_eq!(quad_to_extended(largest), 0x4000u128 << 64 | 1 << 63);
    let signalling = 0x7fffu128 << 112 | 1;
    assert_eq!(quad_to_extended(signalling), 0x7fffu128 << 64 | 3 << 62);
}

#[test]
fn an_element_that_the_end_of_the_file_cuts_is_left_alone() {
    let mut values = [9i32; 4];
    let memory = memory(&mut values, &Datatype::basic(INT), 4);
    assert_eq!(decode_external(&[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0], &memory).unwrap(), 8);
    assert_eq!(native_bytes(&memory, 11), 8);
    assert_eq!(values, [1, 2, 9, 9]);
}

#[test]
fn padding_of_a_struct_is_not_in_the_file() {
    let record =
        Datatype::structure(&[(1, 0, Datatype::basic(Basic::BYTE)), (1, 8, Datatype::basic(LONG))]);
    let record = record.unwrap().resized(0, 16).unwrap();
    let mut values = [7i64, 1, 8, -1];
    let memory = memory(&mut values, &record, 2);
    let bytes = [7, 0, 0, 0, 1, 8, 255, 255, 255, 255];
    assert_eq!(encode_external(&memory).unwrap(), bytes);
    assert_eq!(decode_external(&bytes[..9], &memory).unwrap(), 10);
    assert_eq!(native_bytes(&memory, 9), 10);
    assert_eq!(native_bytes(&memory, 10), 18);
    assert_eq!(native_bytes(&memory, 1000), 18);
}

#[test]
fn rows_longer_than_a_chunk_are_converted_whole() {
    let mut values: Vec<i32> = (0..100_000).collect();
    let bytes = encoded(&mut values, INT).unwrap();
    assert_eq!(bytes[4 * 99_999..], 99_999u32.to_be_bytes());
    assert_eq!(decoded::<i32>(&bytes, INT, 100_000).unwrap(), values);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(100)
    })]

    /// Small non-negative numbers fit into every representation.
    #[test]
    fn any_datatype_comes_back_from_external32(recipe in recipes(), cut in 0usize..50) {
        let (datatype, map) = (recipe.datatype(), recipe.typemap());
        let bytes = map.bytes(2);
        let low = bytes.iter().copied().min().unwrap_or(0);
        let high = bytes.iter().copied().max().map_or(0, |last| last + 1);
        let mut source = vec![0u8; (high - low) as usize];
        let first = |k: i64| map.entries.iter().map(move |entry| (entry.1 + k) as usize);
        let starts: Vec<_> =
            (0..2).flat_map(|k| first(k * map.extent() - low)).collect();
        if map.has_overlap() || runs_twice(&bytes) {
            return Ok(());
        }
        for (n, at) in starts.iter().enumerate() {
            source[*at] = (n % 2) as u8;
        }
        let mut copy = vec![0u8; source.len()];
        let at = |buffer: &mut [u8]| {
            // SAFETY: the buffer holds all bytes from the lowest to the highest displacement.
            unsafe {
                Memory::new(buffer.as_mut_ptr().wrapping_offset(-low as isize), datatype.clone(), 2)
            }
        };
        let external = encode_external(&at(&mut source)).unwrap();
        prop_assert_eq!(external.len() as u64, 2 * datatype.external_size());
        let done = decode_external(&external, &at(&mut copy)).unwrap();
        prop_assert_eq!(done, 2 * datatype.size());
        prop_assert_eq!(&copy, &source);
        let part = &external[..external.len().saturating_sub(cut)];
        let done = decode_external(part, &at(&mut copy)).unwrap();
        prop_assert_eq!(done, native_bytes(&at(&mut copy), part.len() as u64));
    }
}

/// Whether a byte is there more than once.
fn runs_twice(bytes: &[i64]) -> bool {
    let mut sorted = bytes.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

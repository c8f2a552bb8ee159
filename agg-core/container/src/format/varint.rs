//! Numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// Appends `value`.
pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a number that may be negative, as the distance from `base` to `value`.
pub(crate) fn put_from(bytes: &mut Vec<u8>, base: u64, value: u64) {
    let distance = value.wrapping_sub(base) as i64;
    put(bytes, (distance << 1 ^ distance >> 63) as u64);
}

/// Takes a number off the front; `None` if there is none.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Takes a number off the front that [`put_from`] appended.
pub(crate) fn take_from(bytes: &mut &[u8], base: u64) -> Option<u64> {
    let coded = take(bytes)?;
    Some(base.wrapping_add(coded >> 1 ^ (coded & 1).wrapping_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive(base: u64, value: u64, shift in 0..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_from(&mut bytes, base, value);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(take_from(&mut rest, base), Some(value));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn numbers_that_are_cut_off_or_too_large_are_none() {
        assert_eq!(take(&mut &[0x80; 9][..]), None);
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[][..]), None);
    }
}

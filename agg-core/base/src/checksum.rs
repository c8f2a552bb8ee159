//! CRC-32C, the checksum of logs, indexes, manifests, and bytes that wait in files.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, checksum, checksum_combine};

/// The checksum of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm has 32 bits.
    checksum(Crc32Iscsi, bytes) as u32
}

/// Runs of fewer bytes are done with before the way for long ones has begun.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 160;

/// The checksum of the bytes that have the checksum `before`, followed by `bytes`.
#[inline]
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { append_short(before, bytes) };
    }
    append(before, bytes)
}

/// The same by the processor's instruction for eight bytes at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn append_short(before: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut state = u64::from(!before);
    for eight in eights {
        state = _mm_crc32_u64(state, u64::from_le_bytes(*eight));
    }
    !rest.iter().fold(state as u32, |state, byte| _mm_crc32_u8(state, *byte))
}

fn append(before: u32, bytes: &[u8]) -> u32 {
    // The state is the complement of the checksum.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

/// The checksum of bytes with the checksum `before`, followed by `len` bytes with the checksum
/// `after`.
#[inline]
pub fn crc32c_combine(before: u32, after: u32, len: usize) -> u32 {
    checksum_combine(Crc32Iscsi, before.into(), after.into(), len as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard_and_goes_on_anywhere() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        let bytes: Vec<u8> = (0..5000_u32).map(|at| (at * 31 + at / 7) as u8).collect();
        for split in [0, 1, 7, 8, 63, 64, 65, 300, 1024, 4744, 4745, 4859, 4992, 4999, 5000] {
            let (left, right) = bytes.split_at(split);
            assert_eq!(crc32c_append(crc32c(left), right), crc32c(&bytes), "split at {split}");
            assert_eq!(append(crc32c(left), right), crc32c(&bytes), "split at {split}");
            let combined = crc32c_combine(crc32c(left), crc32c(right), right.len());
            assert_eq!(combined, crc32c(&bytes), "split at {split}");
        }
    }
}

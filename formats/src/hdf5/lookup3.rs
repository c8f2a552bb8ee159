//! The checksum of HDF5's metadata: Bob Jenkins' lookup3, as of bytes in little-endian order.

/// Three numbers that are stirred together.
struct State([u32; 3]);

/// Which number is changed, by which, and how far that one is rotated, while more bytes follow.
const STIR: [(usize, usize, usize, u32); 6] =
    [(0, 2, 1, 4), (1, 0, 2, 6), (2, 1, 0, 8), (0, 2, 1, 16), (1, 0, 2, 19), (2, 1, 0, 4)];
/// The same at the end.
const END: [(usize, usize, u32); 7] =
    [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)];

impl State {
    /// Adds twelve bytes; missing ones count as zeros.
    fn add(&mut self, bytes: &[u8]) {
        let mut all = [0; 12];
        all[..bytes.len()].copy_from_slice(bytes);
        for (number, word) in self.0.iter_mut().zip(all.as_chunks::<4>().0) {
            *number = number.wrapping_add(u32::from_le_bytes(*word));
        }
    }

    fn stir(&mut self) {
        let all = &mut self.0;
        for (changed, by, other, bits) in STIR {
            all[changed] = all[changed].wrapping_sub(all[by]) ^ all[by].rotate_left(bits);
            all[by] = all[by].wrapping_add(all[other]);
        }
    }

    fn end(mut self) -> u32 {
        let all = &mut self.0;
        for (changed, by, bits) in END {
            all[changed] = (all[changed] ^ all[by]).wrapping_sub(all[by].rotate_left(bits));
        }
        all[2]
    }
}

/// The checksum of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    // Metadata have no more bytes than 32 bits tell.
    let mut state = State([0xdead_beef_u32.wrapping_add(bytes.len() as u32); 3]);
    let mut rest = bytes;
    while rest.len() > 12 {
        let (next, others) = rest.split_at(12);
        state.add(next);
        state.stir();
        rest = others;
    }
    if rest.is_empty() {
        return state.0[2];
    }
    state.add(rest);
    state.end()
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn the_values_that_are_published_are_found() {
        assert_eq!(checksum(b""), 0xdead_beef);
        assert_eq!(checksum(b"Four score and seven years ago"), 0x1777_0551);
    }
}

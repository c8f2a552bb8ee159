//! Pieces of random length at random places, the same on every rank.

use crate::layout::Piece;

/// A number that looks random, from two numbers (the finaliser of SplitMix64).
fn hash(seed: u64, index: u64) -> u64 {
    let mut word = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The pieces of `rank`: one in each row of `ranks` slots, which of them changes from row to row.
///
/// A piece has 1 to `slot` - 1 bytes and lies somewhere in its slot, so half of the bytes belong to
/// nobody.
pub(crate) fn pieces(slot: u64, rows: u64, seed: u64, rank: u64, ranks: u64) -> Vec<Piece> {
    (0..rows)
        .map(|row| {
            let column = (rank + hash(seed, row) % ranks) % ranks;
            let index = row * ranks + column;
            let len = 1 + hash(seed ^ 0x6c65_6e67, index) % (slot - 1);
            let room = slot - len;
            let start = hash(seed ^ 0x7374_6172, index) % (room + 1);
            Piece { offset: index * slot + start, len }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_half_of_the_bytes_are_owned_and_no_byte_twice() {
        let (slot, rows, ranks) = (64, 1000, 5);
        let mut all: Vec<Piece> =
            (0..ranks).flat_map(|rank| pieces(slot, rows, 7, rank, ranks)).collect();
        all.sort_by_key(|piece| piece.offset);
        assert!(all.windows(2).all(|pair| pair[0].offset + pair[0].len <= pair[1].offset));
        assert!(all.last().unwrap().offset < slot * rows * ranks);
        let owned: u64 = all.iter().map(|piece| piece.len).sum();
        let part = owned as f64 / (slot * rows * ranks) as f64;
        assert!((0.45..0.55).contains(&part), "{part}");
    }
}

//! SipHash-2-4: a keyed digest. Another text with the same digest cannot be found without the key.

/// A key: 128 random bits.
pub type Key = [u64; 2];

fn round(state: &mut [u64; 4]) {
    let [a, b, c, d] = state;
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

/// The digest of `bytes` under `key`.
pub fn digest(key: Key, bytes: &[u8]) -> u64 {
    const CONSTANTS: [u64; 4] = [
        0x736f_6d65_7073_6575,
        0x646f_7261_6e64_6f6d,
        0x6c79_6765_6e65_7261,
        0x7465_6462_7974_6573,
    ];
    let mut state = [0, 1, 2, 3].map(|at| CONSTANTS[at] ^ key[at % 2]);
    let mut take = |word: u64| {
        state[3] ^= word;
        round(&mut state);
        round(&mut state);
        state[0] ^= word;
    };
    let words = bytes.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[7] = bytes.len() as u8;
    for word in words {
        let mut whole = [0; 8];
        whole.copy_from_slice(word);
        take(u64::from_le_bytes(whole));
    }
    take(u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state.into_iter().fold(0, |all, word| all ^ word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_that_the_authors_of_siphash_give() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..64).collect();
        assert_eq!(digest(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(digest(key, &bytes[..15]), 0xa129_ca61_49be_45e5);
    }
}

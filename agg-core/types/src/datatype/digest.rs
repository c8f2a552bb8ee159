//! A 128-bit digest of a datatype's content, equal on every rank for equal trees.

/// Accumulates words into 128 bits (the mixing steps of MurmurHash3, public domain).
///
/// Not cryptographic: it distinguishes the datatypes of co-operating ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest {
    low: u64,
    high: u64,
    words: u64,
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

impl Digest {
    /// An empty digest in the domain `tag`.
    pub(crate) fn new(tag: u64) -> Self {
        Self { low: 0, high: 0, words: 0 }.word(tag)
    }

    /// Adds one word.
    #[must_use]
    pub(crate) fn word(mut self, word: u64) -> Self {
        let first = word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        self.low = (self.low ^ first).rotate_left(27).wrapping_add(self.high);
        self.low = self.low.wrapping_mul(5).wrapping_add(0x52dc_e729);
        let second = word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
        self.high = (self.high ^ second).rotate_left(31).wrapping_add(self.low);
        self.high = self.high.wrapping_mul(5).wrapping_add(0x3849_5ab5);
        self.words += 1;
        self
    }

    /// Adds a signed word.
    #[must_use]
    pub(crate) fn signed(self, word: i64) -> Self {
        self.word(word as u64)
    }

    /// Adds another digest's value.
    #[must_use]
    pub(crate) fn wide(self, value: u128) -> Self {
        self.word(value as u64).word((value >> 64) as u64)
    }

    /// Adds bytes and their number.
    #[must_use]
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self = self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self = self.word(u64::from_le_bytes(word));
        }
        self
    }

    /// The value.
    pub(crate) fn finish(self) -> u128 {
        let low = (self.low ^ self.words).wrapping_add(self.high ^ self.words);
        let high = (self.high ^ self.words).wrapping_add(low);
        let (low, high) = (avalanche(low), avalanche(high));
        let low = low.wrapping_add(high);
        u128::from(low) | u128::from(high.wrapping_add(low)) << 64
    }
}

fn avalanche(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

//! A short name for extents, by which it is seen that they are the same again.

use crate::Run;
use aggio_base::keyed::{Key, digest};

/// 128 bits of extents: two different ones are as good as never the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

/// Any two keys; they are no secret.
const KEYS: [Key; 2] = [[0x61, 0x67], [0x67, 0x69]];

impl Digest {
    /// The digest of runs in their order.
    pub fn of(runs: &[Run]) -> Self {
        let words = runs.iter().flat_map(|run| [run.start, run.len, run.stride, run.count]);
        Self::of_bytes(&words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }

    /// The digest of members with a digest each, in their order.
    pub fn of_all<'a>(members: impl IntoIterator<Item = (&'a u32, &'a Digest)>) -> Self {
        let mut bytes = Vec::new();
        for (member, Digest(value)) in members {
            bytes.extend_from_slice(&member.to_le_bytes());
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        Self::of_bytes(&bytes)
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let [high, low] = KEYS.map(|key| u128::from(digest(key, bytes)));
        Self(high << 64 | low)
    }
}

//! The assignment of bytes to matchers.

use crate::Run;
use aggio_base::Extent;
use std::collections::BTreeMap;

/// Blocks are multiples of this, and of pages.
const UNIT: u64 = 64 << 10;

/// Blocks of a file, dealt to matchers in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    block: u64,
    matchers: u32,
}

impl Shards {
    /// Blocks of `block` bytes for this number of matchers; both at least 1.
    pub fn new(block: u64, matchers: u32) -> Self {
        Self { block: block.max(1), matchers: matchers.max(1) }
    }

    /// Shards for a file of `size` bytes on `agents` agents. One block for each matcher: the bytes
    /// of one agent are close together, so it needs few matchers. Every fourth agent matches: more
    /// matchers would cost readers more requests than they would save each matcher. A short file
    /// has fewer. `block` and `matchers` override these choices.
    pub fn choose(size: u64, agents: u32, block: Option<u64>, matchers: Option<u32>) -> Self {
        let most = matchers.unwrap_or(agents.div_ceil(4)).clamp(1, agents.max(1));
        let fitting = size.div_ceil(u64::from(most)).next_multiple_of(UNIT).max(UNIT);
        let block = block.unwrap_or(fitting).max(1);
        let blocks = size.div_ceil(block).max(1);
        Self::new(block, u32::try_from(blocks).unwrap_or(u32::MAX).min(most))
    }

    /// Bytes of a block.
    pub fn block(self) -> u64 {
        self.block
    }

    /// How many matchers there are.
    pub fn matchers(self) -> u32 {
        self.matchers
    }

    /// The matcher of the byte `offset`.
    pub fn of(self, offset: u64) -> u32 {
        (offset / self.block % u64::from(self.matchers)) as u32
    }

    /// Splits `runs` by matcher: each gets those in its blocks, in file order.
    pub fn split(self, runs: &[Run]) -> BTreeMap<u32, Vec<Run>> {
        let mut parts: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
        for run in runs {
            let hull = run.hull();
            if self.matchers == 1 {
                parts.entry(0).or_default().push(*run);
                continue;
            }
            // A run with extents far apart skips the blocks between them.
            let mut next = hull.offset;
            while next < hull.end() {
                let first = next / self.block;
                let block = Extent::new(first * self.block, self.block);
                let part: Vec<Run> = run.clip(block).collect();
                if !part.is_empty() {
                    parts.entry(self.of(block.offset)).or_default().extend(part);
                }
                next = run.next_byte(block.end());
            }
        }
        parts
    }
}

//! Bounds of the numbers that options take: a number outside is a usage error that names the option
//! and the bounds.

use clap::builder::RangedU64ValueParser;

/// Threads that anybody may ask for: each has a window of the file in memory.
const MOST_THREADS: u64 = 1024;
/// Files that a set may consist of.
const MOST_SUBFILES: u64 = 1_000_000;
/// Bytes that may be stored together in a container, which are read together.
const LARGEST_FRAME: u64 = 1 << 30;

/// A number of threads; 0 for as many as there are cores.
pub(crate) fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=MOST_THREADS)
}

/// A number of files.
pub(crate) fn subfiles() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=MOST_SUBFILES)
}

/// Bytes of a frame; 0 for the usual number.
pub(crate) fn frame() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(0..=LARGEST_FRAME)
}

/// A number of ranks up to `most`.
pub(crate) fn ranks(most: u64) -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=most)
}

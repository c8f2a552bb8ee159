//! The file in memory that every rank opens.

use aggio_base::Extent;
use aggio_store::driver::Facts;
pub(super) use aggio_store::driver::fake::{FakeDriver, FakeFile};

/// A request: where, and how many bytes were asked for.
pub(super) type Seen = Extent;

/// Facts of a file system in memory with blocks of this size.
pub(super) fn facts(block_size: u64) -> Facts {
    Facts { block_size, ..Facts::of_bytes("memory") }
}

//! Base of every layer of aggio: errors, ranges of bytes, messages, counters, system calls.

pub mod allocate;
pub mod caches;
pub mod checksum;
pub mod diagnostics;
pub mod error;
mod error_class;
pub mod extent;
pub mod file_systems;
pub mod host;
pub mod keyed;
pub mod log;
pub mod os;
pub mod overlay;
pub mod pattern;
pub mod report;
pub mod spare_memory;
pub mod spelling;
pub mod system;

pub use error::{Error, ErrorClass, Result};
pub use extent::Extent;

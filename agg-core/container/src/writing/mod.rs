//! Changes of the file, and the seal of the last writer.

mod mapped_pages;
mod seal;
mod shared_size;
pub(crate) mod writer;

pub(crate) use seal::{seal, seal_anew};
pub use writer::Writer;

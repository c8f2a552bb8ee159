//! Changes of the file, and the seal of the last writer.

pub(crate) mod mapped_pages;
pub(crate) mod seal;
pub(crate) mod shared_size;
pub(crate) mod writer;

//! Changes of the file, and the seal of the last writer.

pub(crate) mod seal;
pub(crate) mod writer;

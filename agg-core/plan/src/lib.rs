//! Plans of collective calls: the part of each rank, and the file format as far as plans need it.

pub mod format;
pub mod plan;

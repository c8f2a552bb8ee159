//! Who does what in a collective call, and what files are made of as far as plans need it.

pub mod format;
pub mod plan;

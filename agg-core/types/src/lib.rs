//! Which bytes: type trees of memory and views, and copies between them. Knows no files.

pub mod copy;
pub mod datatype;
pub mod memory;
pub mod view;

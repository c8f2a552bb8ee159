//! Type trees of memory and views, and copies between them. Independent of files.

pub mod copy;
pub mod datatype;
pub mod memory;
pub mod view;

//! HDF5's own subfiling: a stub that has the file's name, a configuration, and subfiles that share
//! the bytes of the file stripe by stripe.
//!
//! ```text
//! find.rs   which configuration and subfiles belong to a stub, also after they were copied
//! set.rs    the file that they stand for
//! ```

mod find;
mod set;
#[cfg(test)]
mod tests;

pub(crate) use find::{Members, find, named_after};
pub(crate) use set::open;

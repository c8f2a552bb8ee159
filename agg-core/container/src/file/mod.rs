//! A container as a file with a name, attributes and locks.

pub(crate) mod attributes;
pub(crate) mod container;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod presence;

//! Containers made of files, and files made of containers.

pub(crate) mod import;
pub(crate) mod merge;
pub(crate) mod recast;
pub(crate) mod split;

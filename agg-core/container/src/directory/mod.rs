//! The directory of a container and the files in it, whatever they hold.

pub(crate) mod dir;
pub(crate) mod fd_range;
pub(crate) mod holes;
pub(crate) mod liveness;
pub(crate) mod part_names;
pub(crate) mod removal;
pub(crate) mod staged_log;
pub(crate) mod system;
mod vectors;

pub(crate) use dir::Dir;
pub use fd_range::keep_descriptors_above;
pub(crate) use holes::Bytes;
pub use part_names::MANIFEST;
pub(crate) use part_names::{ORDER, log_id, log_name};
pub(crate) use removal::{remove_open, remove_tree};
pub(crate) use staged_log::{Stage, StagedLog, drain_all};
pub(crate) use system::{c_path, random, user};
pub(crate) use vectors::complete;

//! The bytes of the file, found by the index and in the logs.

pub(crate) mod completeness;
pub(crate) mod descriptors;
pub(crate) mod gathered_reads;
pub mod inspection;
pub(crate) mod log_copy;
pub(crate) mod placement;
pub(crate) mod reader;
pub(crate) mod resolution;
pub(crate) mod shared_state;
pub(crate) mod verification;
pub(crate) mod view;

//! The directory of a container and the files in it, whatever they hold.

pub(crate) mod dir;
pub(crate) mod fd_range;
pub(crate) mod holes;
pub(crate) mod liveness;
pub(crate) mod part_names;
pub(crate) mod removal;
pub(crate) mod staged_log;
pub(crate) mod system;
pub(crate) mod vectors;

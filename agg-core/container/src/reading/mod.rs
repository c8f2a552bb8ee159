//! The bytes of the file, found by the index and in the logs.

mod completeness;
pub(crate) mod descriptors;
pub(crate) mod gathered_reads;
pub mod inspection;
mod log_copy;
pub(crate) mod placement;
mod reader;
mod resolution;
mod shared_state;
pub(crate) mod verification;
pub(crate) mod view;

pub(crate) use descriptors::Descriptors;
pub use placement::Placed;
pub use reader::{Reader, Segment};
pub(crate) use shared_state::Shared;
pub use verification::Verify;
pub(crate) use view::View;

//! Containers made of files, and files made of containers.

mod import;
mod merge;
mod recast;
mod split;

pub use import::{ReadOnlyFile, Take, Turn, unfold};
pub use merge::{Merge, Merged, merge};
pub use recast::{Layout, Part, Recast, Recaster, Sealing};
pub use split::{Split, split};

//! Blob containers: a directory that stands for one file. Every writer appends to a log of its own,
//! so many writers of small pieces need neither locks nor the file system's help. An index maps the
//! bytes of the file to bytes of the logs.
//!
//! `docs/FORMAT.md` describes the parts byte by byte.

pub use crate::directory::{MANIFEST, keep_descriptors_above};
pub use crate::file::{
    Attributes, Container, Create, LOCKS_FROM, Permissions, Presence, drain, end_inherited,
    is_hidden, is_kept_copy, is_removed, remove, rename,
};
pub use crate::format::{Strip, is_container};
pub use crate::order::Hold;
pub use crate::output::Cleared;
pub use crate::reading::{Placed, Reader, Segment, Verify, inspection as inspect};
pub use crate::repair::{
    Check, Findings, Problem, Recovered, STAGED, Severity, check, clear, is_nameless, is_remain,
    lift_removed, recover,
};
pub use crate::transfer::{
    Layout, Merge, Merged, Part, ReadOnlyFile, Recast, Recaster, Sealing, Split, Take, Turn, merge,
    split, unfold,
};
pub use crate::writing::Writer;

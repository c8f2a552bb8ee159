//! Blob containers: a directory that stands for one file. Every writer appends to a log of its own,
//! so many writers of small pieces need neither locks nor the file system's help. An index maps the
//! bytes of the file to bytes of the logs.
//!
//! `docs/FORMAT.md` describes the parts byte by byte.

pub use crate::directory::fd_range::keep_descriptors_above;
pub use crate::directory::part_names::MANIFEST;
pub use crate::file::attributes::{Attributes, Permissions};
pub use crate::file::container::{Container, Create, drain};
pub use crate::file::locks::LOCKS_FROM;
pub use crate::file::names::{end_inherited, is_hidden, is_kept_copy, is_removed, remove, rename};
pub use crate::file::presence::Presence;
pub use crate::format::frame::Strip;
pub use crate::format::manifest::is_container;
pub use crate::order::hold::Hold;
pub use crate::output::Cleared;
pub use crate::reading::inspection as inspect;
pub use crate::reading::placement::Placed;
pub use crate::reading::reader::{Reader, Segment};
pub use crate::reading::verification::Verify;
pub use crate::repair::check::check;
pub use crate::repair::findings::{Check, Findings, Problem, Severity};
pub use crate::repair::recovery::{Recovered, recover};
pub use crate::repair::remains::{STAGED, clear, is_nameless, is_remain, lift_removed};
pub use crate::transfer::import::{ReadOnlyFile, Take, Turn, unfold};
pub use crate::transfer::merge::{Merge, Merged, merge};
pub use crate::transfer::recast::{Layout, Part, Recast, Recaster, Sealing};
pub use crate::transfer::split::{Split, split};
pub use crate::writing::writer::Writer;

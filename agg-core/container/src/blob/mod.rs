//! Blob containers: a directory that stands for one file. Every writer appends to a log of its own,
//! so many writers of small pieces need neither locks nor the file system's help. An index maps the
//! bytes of the file to bytes of the logs.
//!
//! `docs/FORMAT.md` describes the parts byte by byte.

mod alive;
mod attributes;
mod begun;
mod blocks;
mod check;
mod complete;
mod container;
mod descriptors;
mod dir;
mod drain;
mod examine;
mod fd_range;
mod findings;
mod frame;
mod gather;
mod hold;
mod holes;
mod import;
mod index;
mod index_write;
pub mod inspect;
mod live;
mod locks;
mod log;
mod manifest;
mod merge;
mod names;
mod placed;
mod presence;
mod read;
mod recast;
mod recover;
mod remains;
mod repair;
mod resolve;
mod run;
mod runs;
mod scan;
mod seal;
mod search;
mod sequencer;
mod shared;
mod spans;
mod split;
mod staged;
mod summary;
mod superseded;
mod torn;
mod transfer;
mod varint;
mod verify;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use attributes::{Attributes, Permissions};
pub use check::check;
pub use container::{Container, Create};
pub use dir::MANIFEST;
pub(crate) use dir::c_path;
pub use drain::drain;
pub use fd_range::keep_descriptors_above;
pub use findings::{Check, Findings, Problem, Severity};
pub use frame::Strip;
pub use hold::Hold;
pub use import::{ReadOnlyFile, Take, Turn, unfold};
pub use locks::LOCKS_FROM;
pub use manifest::is_container;
pub use merge::{Merge, Merged, merge};
pub(crate) use names::remove_tree;
pub use names::{end_inherited, is_hidden, is_kept_copy, is_removed, remove, rename};
pub use placed::Placed;
pub use presence::Presence;
pub use read::{Reader, Segment};
pub use recast::{Layout, Part, Recast, Recaster, Sealing};
pub use recover::{Recovered, recover};
pub use remains::{STAGED, clear, is_nameless, is_remain, lift_removed};
pub use split::{Split, split};
pub use verify::Verify;
pub use write::Writer;

pub use crate::output::Cleared;

use aggio_base::{Error, ErrorClass};
use std::path::Path;

/// The error for damaged content.
fn damaged(words: impl Into<String>) -> Error {
    Error::new(ErrorClass::Io, words).with_errno(libc::EIO)
}

/// The error that the operating system reported for `path`.
fn failed(call: &str, error: &std::io::Error, path: &Path) -> Error {
    Error::os(call, error).with_path(&path.display().to_string())
}

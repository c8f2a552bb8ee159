//! Which set-id bits a copy keeps.
//!
//! A file with such a bit runs with the rights of its owner. A copy that belongs to somebody else
//! would run with rights that nobody gave it, so the bits stay only where owner and contents are of
//! one hand.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// The owner and group of the file that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Source {
    /// The owner and group of an ordinary file.
    pub fn of(file: &Metadata) -> Self {
        Source { uid: file.uid(), gid: file.gid() }
    }
}

/// The bits of `mode` that the finished copy `copy` may have: set-id bits only if it belongs to the
/// owner of the source, and the group's bit only if it has the group, too.
pub fn kept_mode(mode: u32, source: Source, copy: &Metadata) -> u32 {
    let is_owners = copy.uid() == source.uid;
    let mut kept = mode & 0o7777;
    if !is_owners {
        kept &= !SET_USER;
    }
    if !is_owners || copy.gid() != source.gid {
        kept &= !SET_GROUP;
    }
    kept
}

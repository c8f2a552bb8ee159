//! Files as they are shown to the kernel.

use crate::attributes::{self, TTL};
use crate::blob::Blob;
use crate::sets::OpenSet;
use agg_core::blob::Attributes;
use fuser::FileAttr;
use rustix::fs::Stat;
use std::io::Result;
use std::time::Duration;

/// A file as it is shown to the kernel.
pub(crate) struct Shown {
    pub(crate) attributes: FileAttr,
    /// How long the kernel may cache that.
    pub(crate) ttl: Duration,
}

impl Shown {
    pub(crate) fn plain(stat: &Stat, id: u64) -> Self {
        Shown { attributes: attributes::of_plain(stat, id), ttl: TTL }
    }

    /// A set, with the size of all its files.
    pub(crate) fn set(set: &OpenSet, id: u64) -> Self {
        Shown { attributes: attributes::of_set(set.stat(), set.file.size(), id), ttl: TTL }
    }

    /// A container. The kernel must not cache one that is being written.
    pub(crate) fn container(found: &Attributes, links: u32, id: u64) -> Self {
        let ttl = if found.sealed { TTL } else { Duration::ZERO };
        Shown { attributes: attributes::of_container(found, links, id), ttl }
    }

    pub(crate) fn open_container(blob: &Blob, id: u64) -> Result<Self> {
        Ok(Shown::container(&blob.attributes()?, blob.links(), id))
    }

    /// A generation of a coupled file. The kernel must not cache it: another one may come at any
    /// time.
    pub(crate) fn generation(stat: &Stat, id: u64) -> Self {
        let attributes = attributes::of_plain(stat, id);
        // Memory has no name of its own.
        Shown { attributes: FileAttr { nlink: 1, ..attributes }, ttl: Duration::ZERO }
    }

    /// A file that cannot be read.
    pub(crate) fn broken(stat: &Stat, id: u64) -> Self {
        Shown { attributes: attributes::of_broken(stat, id), ttl: Duration::ZERO }
    }

    pub(crate) fn id(&self) -> u64 {
        self.attributes.ino.0
    }
}

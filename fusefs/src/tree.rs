//! The files that the kernel has looked up, under numbers that do not change.
//!
//! A file is held by a descriptor that only names it (`O_PATH`), so that renaming and removing do
//! not lose it. There may be more files than descriptors: those of files that nobody uses are
//! closed and opened again by the name that the file was found under, if the same file is still
//! there.

use crate::stamp::Stamp;
use fuser::INodeNo;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, Stat};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// The number of the directory that is shown.
pub(crate) const ROOT: u64 = INodeNo::ROOT.0;

/// The identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// A directory that became a container is another file.
    kind: Kind,
}

/// The kind of a file, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The same as in the backing directory.
    Plain,
    /// A directory that stands for a file.
    Container,
    /// The first of several files that stand for one.
    Set,
    /// A generation of a file that programs exchange in memory.
    Coupled,
}

impl Identity {
    pub(crate) fn new(stat: &Stat, kind: Kind) -> Self {
        Identity { device: stat.st_dev, inode: stat.st_ino, kind }
    }
}

struct Node {
    identity: Identity,
    parent: u64,
    name: OsString,
    /// The name of the file itself, if it is the first of a set that has another.
    first: Option<OsString>,
    fd: Option<Arc<OwnedFd>>,
    /// The name is gone: the descriptor is the only way to the file.
    pinned: bool,
    lookups: u64,
    stamp: Option<Stamp>,
}

#[derive(Default)]
struct Nodes {
    by_id: HashMap<u64, Node>,
    by_identity: HashMap<Identity, u64>,
    held: usize,
}

/// A file that was found by name.
pub(crate) struct Seen {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) stat: Stat,
    pub(crate) kind: Kind,
    /// The name of the first file of a set.
    pub(crate) first: Option<OsString>,
}

impl Seen {
    pub(crate) fn identity(&self) -> Identity {
        Identity::new(&self.stat, self.kind)
    }

    pub(crate) fn is_container(&self) -> bool {
        self.kind == Kind::Container
    }
}

/// A file that the kernel has looked up.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) kind: Kind,
}

impl Known {
    pub(crate) fn is_container(&self) -> bool {
        self.kind == Kind::Container
    }
}

/// All files that the kernel has looked up.
pub(crate) struct Tree {
    nodes: Mutex<Nodes>,
    most_held: usize,
    device: u64,
}

/// Opens `name` in a directory without following it anywhere.
pub(crate) fn open_name(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    check_name(name)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// A name that leads out of its directory is none.
pub(crate) fn check_name(name: &OsStr) -> Result<()> {
    let bytes = name.as_encoded_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(Error::from_raw_os_error(libc_errno::EINVAL));
    }
    Ok(())
}

/// Error numbers by their names.
pub(crate) mod libc_errno {
    use rustix::io::Errno;

    pub(crate) const EINVAL: i32 = Errno::INVAL.raw_os_error();
    pub(crate) const ESTALE: i32 = Errno::STALE.raw_os_error();
}

impl Tree {
    /// The tree below `root`; at most `most_held` descriptors are kept of files that nobody uses.
    pub(crate) fn new(root: &Path, most_held: usize) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let identity = Identity::new(&stat, Kind::Plain);
        let node = Node {
            identity,
            parent: ROOT,
            name: OsString::new(),
            first: None,
            fd: Some(Arc::new(fd)),
            pinned: true,
            lookups: 1,
            stamp: None,
        };
        let nodes = Nodes {
            by_id: HashMap::from([(ROOT, node)]),
            by_identity: HashMap::from([(identity, ROOT)]),
            held: 1,
        };
        Ok(Tree { nodes: Mutex::new(nodes), most_held, device: stat.st_dev })
    }

    /// The file of a number.
    pub(crate) fn get(&self, id: u64) -> Result<Known> {
        self.get_below(id, 0)
    }

    fn get_below(&self, id: u64, depth: usize) -> Result<Known> {
        let stale = || Error::from_raw_os_error(libc_errno::ESTALE);
        let (parent, name, identity) = {
            let nodes = self.nodes.lock();
            let node = nodes.by_id.get(&id).ok_or_else(stale)?;
            if let Some(fd) = &node.fd {
                return Ok(Known { fd: Arc::clone(fd), kind: node.identity.kind });
            }
            (node.parent, node.first.as_ref().unwrap_or(&node.name).clone(), node.identity)
        };
        if depth > 4096 {
            return Err(stale());
        }
        let directory = self.get_below(parent, depth + 1)?;
        let fd = Arc::new(open_name(&directory.fd, &name).map_err(|_| stale())?);
        let stat = rustix::fs::fstat(&*fd)?;
        if Identity::new(&stat, identity.kind) != identity {
            return Err(stale());
        }
        let mut nodes = self.nodes.lock();
        let Nodes { by_id, held, .. } = &mut *nodes;
        if let Some(node) = by_id.get_mut(&id)
            && node.fd.is_none()
        {
            node.fd = Some(Arc::clone(&fd));
            *held += 1;
        }
        self.let_go(&mut nodes);
        Ok(Known { fd, kind: identity.kind })
    }

    /// The directory in which a file was found, and its name there.
    pub(crate) fn place(&self, id: u64) -> Result<(Known, OsString)> {
        let stale = || Error::from_raw_os_error(libc_errno::ESTALE);
        let (parent, name) = {
            let nodes = self.nodes.lock();
            let node = nodes.by_id.get(&id).ok_or_else(stale)?;
            (node.parent, node.name.clone())
        };
        Ok((self.get(parent)?, name))
    }

    /// Counts a look-up of a file by the kernel; returns its number. `wanted` is the number that it
    /// gets if that is free.
    pub(crate) fn remember(&self, parent: u64, name: &OsStr, seen: &Seen, wanted: u64) -> u64 {
        let identity = seen.identity();
        let mut nodes = self.nodes.lock();
        if let Some(id) = nodes.by_identity.get(&identity).copied()
            && let Some(node) = nodes.by_id.get_mut(&id)
        {
            node.lookups += 1;
            if id != ROOT && !node.pinned {
                (node.parent, node.name) = (parent, name.to_owned());
                node.first.clone_from(&seen.first);
            }
            return id;
        }
        let mut id = wanted;
        while id <= ROOT || nodes.by_id.contains_key(&id) {
            id = mix(id ^ mix(identity.inode) ^ identity.device);
        }
        let node = Node {
            identity,
            parent,
            name: name.to_owned(),
            first: seen.first.clone(),
            fd: Some(Arc::clone(&seen.fd)),
            pinned: false,
            lookups: 1,
            stamp: None,
        };
        nodes.by_id.insert(id, node);
        nodes.by_identity.insert(identity, id);
        nodes.held += 1;
        self.let_go(&mut nodes);
        id
    }

    /// The number that a file wants: its own if it is a plain one and lies on the file system of
    /// the root. A container has a better one as long as it can be read.
    pub(crate) fn wanted(&self, seen: &Seen) -> u64 {
        let Stat { st_ino: inode, st_dev: device, .. } = seen.stat;
        match seen.kind {
            Kind::Plain if device == self.device => inode,
            Kind::Plain => mix(inode ^ mix(device)) >> 2,
            Kind::Container => mix(inode ^ mix(device)) >> 2 | 1 << 62,
            Kind::Set => mix(mix(inode) ^ device) >> 2 | 1 << 61,
            Kind::Coupled => mix(mix(inode) ^ device) >> 3 | 1 << 60,
        }
    }

    /// The number of a file if the kernel has looked it up.
    pub(crate) fn number(&self, identity: Identity) -> Option<u64> {
        self.nodes.lock().by_identity.get(&identity).copied()
    }

    /// The kernel forgets so many of its look-ups; whether the file is unknown now.
    pub(crate) fn forget(&self, id: u64, lookups: u64) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.by_id.get_mut(&id) else { return false };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 || id == ROOT {
            return false;
        }
        if let Some(node) = nodes.by_id.remove(&id) {
            nodes.by_identity.remove(&node.identity);
            nodes.held -= usize::from(node.fd.is_some());
        }
        true
    }

    /// A name goes away or leads to another file: keeps the descriptor of the file that has it now,
    /// if it is known.
    pub(crate) fn pin(&self, directory: &OwnedFd, name: &OsStr) {
        let Ok(fd) = open_name(directory, name) else { return };
        let Ok(stat) = rustix::fs::fstat(&fd) else { return };
        let fd = Arc::new(fd);
        let mut nodes = self.nodes.lock();
        for kind in [Kind::Plain, Kind::Container, Kind::Set] {
            let id = nodes.by_identity.get(&Identity::new(&stat, kind)).copied();
            let Nodes { by_id, held, .. } = &mut *nodes;
            if let Some(node) = id.and_then(|id| by_id.get_mut(&id)) {
                node.pinned = true;
                *held += usize::from(node.fd.is_none());
                node.fd.get_or_insert_with(|| Arc::clone(&fd));
            }
        }
    }

    /// A file has this name now.
    pub(crate) fn renamed(&self, identity: Identity, parent: u64, name: &OsStr) {
        let mut nodes = self.nodes.lock();
        let Some(id) = nodes.by_identity.get(&identity).copied() else { return };
        if let Some(node) = nodes.by_id.get_mut(&id) {
            (node.parent, node.name, node.pinned) = (parent, name.to_owned(), false);
        }
    }

    /// Whether the kernel's copy of the data is that of this state; remembers the state.
    pub(crate) fn has_kept(&self, id: u64, stamp: Option<Stamp>) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.by_id.get_mut(&id) else { return false };
        let before = std::mem::replace(&mut node.stamp, stamp);
        stamp.is_some() && before == stamp
    }

    /// Closes descriptors that nobody uses when there are too many.
    fn let_go(&self, nodes: &mut Nodes) {
        if nodes.held <= self.most_held {
            return;
        }
        let Nodes { by_id, held, .. } = nodes;
        let target = self.most_held / 4 * 3;
        let may_close = |node: &Node| !node.pinned && node.identity.kind != Kind::Coupled;
        for node in by_id.values_mut().filter(|node| may_close(node)) {
            if *held <= target {
                return;
            }
            if node.fd.as_ref().is_some_and(|fd| Arc::strong_count(fd) == 1) {
                node.fd = None;
                *held -= 1;
            }
        }
    }
}

/// Spreads a number over all 64 bits.
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;

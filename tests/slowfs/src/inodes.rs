//! The files that the kernel refers to: each held by a descriptor, so that renaming and removing do
//! not lose them.

use fuser::INodeNo;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file of the backing directory.
struct Node {
    /// Opened with `O_PATH`: refers to the file under any later name.
    file: Arc<File>,
    /// The number of lookups by the kernel that it has not forgotten.
    lookups: u64,
}

/// All files that the kernel refers to.
pub(crate) struct Inodes(Mutex<HashMap<u64, Node>>);

fn open(path: &Path) -> Result<File> {
    File::options().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

/// A path that leads to the very file of a descriptor.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A file that is held while its path is used.
pub(crate) struct Held(Arc<File>);

impl Held {
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.0)
    }

    pub(crate) fn child(&self, name: &OsStr) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn metadata(&self) -> Result<Metadata> {
        self.0.metadata()
    }
}

impl Inodes {
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let directory = open(&root.canonicalize()?)?;
        if !directory.metadata()?.is_dir() {
            return Err(Error::from_raw_os_error(libc::ENOTDIR));
        }
        let root = Node { file: Arc::new(directory), lookups: 1 };
        Ok(Inodes(Mutex::new(HashMap::from([(INodeNo::ROOT.0, root)]))))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Node>> {
        // The table is whole between any two of its calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, inode: INodeNo) -> Result<Held> {
        let nodes = self.lock();
        let node = nodes.get(&inode.0).ok_or(Error::from_raw_os_error(libc::ESTALE))?;
        Ok(Held(Arc::clone(&node.file)))
    }

    /// Finds a file by name and counts the kernel's reference to it.
    pub(crate) fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<(INodeNo, Metadata)> {
        let file = open(&self.get(parent)?.child(name))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let inode = metadata.ino();
        let mut nodes = self.lock();
        let node = nodes.entry(inode).or_insert(Node { file: Arc::new(file), lookups: 0 });
        node.lookups += 1;
        Ok((INodeNo(inode), metadata))
    }

    /// The kernel forgets so many of its look-ups; whether the file is unknown now.
    pub(crate) fn forget(&self, inode: INodeNo, lookups: u64) -> bool {
        let mut nodes = self.lock();
        let Some(node) = nodes.get_mut(&inode.0) else { return false };
        node.lookups = node.lookups.saturating_sub(lookups);
        let gone = node.lookups == 0 && inode != INodeNo::ROOT;
        if gone {
            nodes.remove(&inode.0);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_tests::Directory;

    #[test]
    fn a_file_is_known_until_every_look_up_is_forgotten_even_when_it_is_removed() {
        let directory = Directory::new();
        let name = OsStr::new("file");
        std::fs::write(directory.path().join(name), "abc").unwrap();
        let inodes = Inodes::new(directory.path()).unwrap();
        let (inode, _) = inodes.look_up(INodeNo::ROOT, name).unwrap();
        inodes.look_up(INodeNo::ROOT, name).unwrap();
        std::fs::remove_file(directory.path().join(name)).unwrap();
        assert_eq!(std::fs::read(inodes.get(inode).unwrap().path()).unwrap(), b"abc");
        assert!(!inodes.forget(inode, 1));
        assert!(inodes.forget(inode, 1));
        assert!(inodes.get(inode).is_err());
        assert!(!inodes.forget(INodeNo::ROOT, 100));
    }
}

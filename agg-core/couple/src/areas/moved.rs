//! Files with bytes that have moved out of memory.

use super::{Area, Areas, Memory, Remains};
use aggio_base::os;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The memory of a file with bytes that have moved, while somebody has it open.
#[derive(Debug)]
pub(super) struct Lingering {
    area: Area,
    /// Opens with smaller numbers are of this memory.
    before: u64,
    pub(super) file: OwnedFd,
}

impl Areas {
    /// The bytes of a file are in `file` from now on. Opens with numbers below `before` keep the
    /// memory that it had.
    pub(crate) fn replace(&mut self, area: Area, file: OwnedFd, before: u64) -> io::Result<()> {
        let lease = file.try_clone()?;
        let missing = || io::Error::from_raw_os_error(libc::ESTALE);
        let memory = self.files.get_mut(&area).ok_or_else(missing)?;
        let (watch, has_memory) = (-1, false);
        let new = Memory { file, lease, watch, copied: None, ready: 0, slack: 0, has_memory };
        let old = std::mem::replace(memory, new);
        self.unwatch(&old);
        self.lingering.push(Lingering { area, before, file: old.file });
        Ok(())
    }

    /// Takes over a file of an earlier agent, to which nobody writes.
    pub(crate) fn adopt(&mut self, area: Area, file: OwnedFd) -> io::Result<()> {
        let lease = file.try_clone()?;
        let (watch, has_memory) = (-1, true);
        let memory = Memory { file, lease, watch, copied: None, ready: 0, slack: 0, has_memory };
        self.files.insert(area, memory);
        Ok(())
    }

    /// Memory of files that have moved which nobody has open any more; `is_open` tells whether a
    /// file has opens with numbers below another one.
    pub(crate) fn left(&mut self, is_open: impl Fn(Area, u64) -> bool) -> Vec<Remains> {
        let all = std::mem::take(&mut self.lingering);
        let (stays, goes) = all.into_iter().partition(|one| is_open(one.area, one.before));
        self.lingering = stays;
        goes.into_iter().filter_map(|one| Remains::of(one.file, true).ok()).collect()
    }

    /// Bytes that are not in memory.
    pub(crate) fn moved_bytes(&self) -> u64 {
        let moved = self.files.values().filter(|memory| !memory.has_memory);
        moved.map(|memory| held(&memory.file)).sum()
    }

    /// Bytes of memory of files that have moved.
    pub(super) fn lingering_bytes(&self) -> u64 {
        self.lingering.iter().map(|one| held(&one.file)).sum()
    }

    /// The file with this former memory, as `fstat` describes it.
    pub(super) fn find_lingering(&self, device: u64, inode: u64) -> Option<Area> {
        let is_it = |file: &OwnedFd| {
            let facts = os::fstat(file.as_raw_fd());
            facts.is_ok_and(|facts| (facts.st_dev, facts.st_ino) == (device, inode))
        };
        self.lingering.iter().find(|one| is_it(&one.file)).map(|one| one.area)
    }
}

/// Bytes that a file takes.
pub(super) fn held(file: &OwnedFd) -> u64 {
    os::fstat(file.as_raw_fd()).map_or(0, |facts| 512 * facts.st_blocks.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    fn read(file: OwnedFd) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        File::from(file).read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn who_has_the_memory_open_keeps_it_and_others_get_the_file() {
        let mut areas = Areas::new().unwrap();
        areas.make(1, 0o640, None).unwrap();
        let write = areas.open(1, true, true, false).unwrap();
        File::from(write).write_all_at(b"kept", 0).unwrap();
        let (before, facts) = (areas.open(1, true, false, false).unwrap(), areas.stat(1, 0));
        let scratch = tempfile::tempdir().unwrap();
        let folder =
            crate::spill_directory::Folder::open(scratch.path().to_str().unwrap()).unwrap();
        let moved = folder.take(&areas.open(1, true, false, false).unwrap()).unwrap();
        areas.replace(1, moved, 7).unwrap();
        let after = areas.open(1, true, false, false).unwrap();
        let (old, new) = (facts.unwrap(), areas.stat(1, 0).unwrap());
        assert_eq!((old.mode, old.size, old.modified), (new.mode, new.size, new.modified));
        assert_ne!(old.device, new.device);
        assert_eq!((areas.bytes(), areas.moved_bytes()), (512 * old.blocks, 512 * new.blocks));
        assert_eq!(areas.find(old.device, old.inode), Some(1));
        assert_eq!(areas.find(new.device, new.inode), Some(1));
        assert!(areas.left(|area, below| (area, below) == (1, 7)).is_empty());
        let [left] = &areas.left(|_, _| false)[..] else { panic!() };
        assert_eq!(left.bytes, 512 * old.blocks);
        assert_eq!(areas.bytes(), 0);
        assert_eq!((read(before), read(after)), (b"kept".to_vec(), b"kept".to_vec()));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(areas.take(1).unwrap().bytes, 0, "it has no memory to give back");
        assert!(scratch.path().metadata().unwrap().blocks() < 16);
    }
}

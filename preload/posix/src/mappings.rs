//! Files that the program maps, or has mapped, as shared memory. The mapping outlives the
//! descriptor, so the kernel serves such a file when it is opened again.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Release};

/// How many files are remembered; with more, all files count as mapped.
const MOST: usize = 256;

/// The files that were mapped.
pub(crate) struct Mappings {
    files: [[AtomicU64; 2]; MOST],
    /// Places that were taken.
    taken: AtomicUsize,
    /// There were more files than places.
    full: AtomicBool,
}

impl Mappings {
    pub(crate) const fn new() -> Self {
        let files = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST];
        Self { files, taken: AtomicUsize::new(0), full: AtomicBool::new(false) }
    }

    /// The file of this device and inode is mapped.
    pub(crate) fn remember(&self, identity: [u64; 2]) {
        if self.has(identity) {
            return;
        }
        let place = self.taken.fetch_add(1, Acquire);
        match self.files.get(place) {
            // A half-filled place names a file that does not exist, or one too many.
            Some(file) => {
                file.iter().zip(identity).for_each(|(word, value)| word.store(value, Release))
            }
            None => self.full.store(true, Release),
        }
    }

    /// Whether the file of this device and inode was ever mapped.
    pub(crate) fn has(&self, identity: [u64; 2]) -> bool {
        let known = self.taken.load(Acquire).min(MOST);
        let same =
            |file: &[AtomicU64; 2]| file.iter().zip(identity).all(|(w, v)| w.load(Acquire) == v);
        self.full.load(Acquire) || self.files[..known].iter().any(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_mapped_is_remembered_by_device_and_inode() {
        let known = Mappings::new();
        assert!(!known.has([7, 70]));
        known.remember([7, 70]);
        known.remember([7, 70]);
        assert!(known.has([7, 70]) && !known.has([7, 71]) && !known.has([8, 70]));
        assert_eq!(known.taken.load(Acquire), 1);
        (1..MOST as u64).for_each(|inode| known.remember([9, inode]));
        assert!(!known.has([8, 70]));
        known.remember([9, 0]);
        assert!(known.has([8, 70]), "where there is no place for more, all count as mapped");
    }
}

//! Files of which the program has, or had, a shared mapping: that outlives the descriptor, so whoever opens such a file
//! again is served by the kernel.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Release};

/// How many files are remembered; with more, all files count as mapped.
const MOST: usize = 256;

static FILES: [[AtomicU64; 2]; MOST] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST];
/// Places that were taken, and that are filled.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static FULL: AtomicBool = AtomicBool::new(false);

/// The file of this device and inode is mapped.
pub fn remember(identity: [u64; 2]) {
    if has(identity) {
        return;
    }
    let place = TAKEN.fetch_add(1, Acquire);
    match FILES.get(place) {
        // A half-filled place names a file that does not exist, or one too many.
        Some(file) => {
            file.iter().zip(identity).for_each(|(word, value)| word.store(value, Release))
        }
        None => FULL.store(true, Release),
    }
}

/// Whether the file of this device and inode was ever mapped.
pub fn has(identity: [u64; 2]) -> bool {
    let known = TAKEN.load(Acquire).min(MOST);
    let same = |file: &[AtomicU64; 2]| file.iter().zip(identity).all(|(w, v)| w.load(Acquire) == v);
    FULL.load(Acquire) || FILES[..known].iter().any(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_mapped_is_remembered_by_device_and_inode() {
        assert!(!has([7, 70]));
        remember([7, 70]);
        remember([7, 70]);
        assert!(has([7, 70]) && !has([7, 71]) && !has([8, 70]));
        assert_eq!(TAKEN.load(Acquire), 1);
    }
}

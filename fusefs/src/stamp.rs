//! States of files that can be told from each other: the kernel keeps the data of one.

use rustix::fs::Stat;
use std::time::{SystemTime, UNIX_EPOCH};

/// The state of a file when its data were last given to the kernel to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) version: u64,
    pub(crate) size: u64,
    pub(crate) modified: (i64, u64),
}

impl Stamp {
    /// The state of a plain file, if it can be told from any later one by its times.
    pub(crate) fn of_plain(stat: &Stat) -> Option<Self> {
        let stamp = Stamp {
            version: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        };
        is_old(stat.st_mtime).then_some(stamp)
    }
}

/// Clocks of file systems are coarse: two changes in quick succession may have one time.
fn is_old(seconds: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    now.saturating_sub(seconds) > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    #[test]
    fn a_file_that_was_changed_just_now_has_no_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let stamp = || Stamp::of_plain(&rustix::fs::fstat(&file).unwrap());
        assert_eq!(stamp(), None);
        file.set_modified(UNIX_EPOCH + Duration::new(1000, 7)).unwrap();
        let old = stamp().unwrap();
        assert_eq!((old.size, old.modified), (0, (1000, 7)));
        file.set_len(3).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::new(1000, 7)).unwrap();
        assert_eq!(stamp(), Some(Stamp { size: 3, ..old }));
    }
}

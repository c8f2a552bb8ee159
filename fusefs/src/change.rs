//! Changing attributes: mode, owner, size, times.

use crate::blob::Blob;
use crate::held;
use crate::open_file::OpenFile;
use crate::request::Caller;
use crate::set_ids;
use fuser::TimeOrNow;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The attributes that a program changes.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

/// A time as the system calls want it.
fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => {
            let (seconds, rest) = match time.duration_since(UNIX_EPOCH) {
                Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after),
                Err(before) => since_before(before.duration()),
            };
            Timespec { tv_sec: seconds, tv_nsec: rest.subsec_nanos().into() }
        }
    }
}

/// Whole seconds below zero, and the fraction above them.
fn since_before(before: Duration) -> (i64, Duration) {
    let whole = before.as_secs() + u64::from(before.subsec_nanos() > 0);
    let rest = Duration::from_secs(whole).saturating_sub(before);
    (i64::try_from(whole).map_or(i64::MIN, |whole| -whole), rest)
}

fn moment(time: Option<TimeOrNow>) -> Option<SystemTime> {
    time.map(|time| match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    })
}

impl Change {
    /// Changes a container for `caller`.
    pub(crate) fn apply_to_container(&self, blob: &Blob, caller: Caller) -> Result<()> {
        if let Some(size) = self.size {
            set_ids::drop_from_container(blob, caller)?;
            blob.write(|log| log.set_size(size))?;
        }
        if self.uid.is_some() || self.gid.is_some() {
            blob.set_owner(self.uid, self.gid)?;
        }
        if let Some(mode) = self.mode {
            blob.set_mode(mode & 0o7777)?;
        }
        let (accessed, modified) = (moment(self.accessed), moment(self.modified));
        if accessed.is_some() || modified.is_some() {
            blob.set_times(accessed, modified)?;
        }
        Ok(())
    }

    /// Changes a file that is not a container for `caller`, by a handle if it is `open`.
    pub(crate) fn apply_to_file(
        &self,
        fd: &OwnedFd,
        open: Option<&OpenFile>,
        caller: Caller,
    ) -> Result<()> {
        if let Some(size) = self.size {
            set_ids::drop_from_file(fd, caller)?;
            match open {
                // The right to do so was checked when the file was opened.
                Some(OpenFile::Plain { file, .. }) => file.set_len(size)?,
                _ => held::reopen(fd, OFlags::WRONLY.bits().cast_signed())?.set_len(size)?,
            }
        }
        if self.uid.is_some() || self.gid.is_some() {
            let (uid, gid) = (self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
            rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = self.mode {
            rustix::fs::chmod(held::path(fd), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if self.accessed.is_some() || self.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(self.accessed),
                last_modification: timespec(self.modified),
            };
            rustix::fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, held};

    #[test]
    fn times_before_1970_have_seconds_below_zero_and_nanoseconds_above() {
        let time = UNIX_EPOCH - Duration::from_millis(1500);
        let spec = timespec(Some(TimeOrNow::SpecificTime(time)));
        assert_eq!((spec.tv_sec, spec.tv_nsec), (-2, 500_000_000));
        let spec = timespec(Some(TimeOrNow::SpecificTime(UNIX_EPOCH + Duration::new(3, 7))));
        assert_eq!((spec.tv_sec, spec.tv_nsec), (3, 7));
    }

    const ROOT: Caller = Caller { uid: 0, gid: 0, umask: 0 };

    #[test]
    fn a_container_and_a_file_change_alike() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, directory) = (folder.path().join("file"), folder.path().join("container"));
        std::fs::write(&file, b"bytes").unwrap();
        container(&directory, b"bytes");
        let blob = Blob::open(held(&directory), agg_core::blob::Verify::Always).unwrap();
        let time = UNIX_EPOCH + Duration::new(1000, 7);
        let change = Change {
            mode: Some(0o640),
            size: Some(3),
            modified: Some(TimeOrNow::SpecificTime(time)),
            ..Change::default()
        };
        change.apply_to_file(&held(&file), None, ROOT).unwrap();
        change.apply_to_container(&blob, ROOT).unwrap();
        let facts = file.metadata().unwrap();
        assert_eq!((facts.mode() & 0o7777, facts.len()), (0o640, 3));
        assert_eq!(facts.modified().unwrap(), time);
        let found = blob.attributes().unwrap();
        assert_eq!((found.mode & 0o7777, found.size, found.mtime), (0o640, 3, time));
    }

    #[test]
    fn a_file_is_cut_by_the_handle_that_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let cut = Change { size: Some(1), ..Change::default() };
        let file = std::fs::File::open(&path).unwrap();
        // This handle may not write.
        let open = OpenFile::Plain { file, id: 7, writes: false };
        assert!(cut.apply_to_file(&held(&path), Some(&open), ROOT).is_err());
        cut.apply_to_file(&held(&path), None, ROOT).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"b");
    }
}

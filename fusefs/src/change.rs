//! Changing attributes: mode, owner, size, times.

use crate::handles::Open;
use crate::held;
use crate::request::Caller;
use crate::shown::Shown;
use crate::tree::{Kind, Known};
use crate::view::View;
use fuser::{FileHandle, TimeOrNow};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::io::Result;
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

impl View {
    pub(crate) fn change(
        &self,
        id: u64,
        handle: Option<FileHandle>,
        change: &Change,
        caller: Caller,
    ) -> Result<Shown> {
        if !self.options.write {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let known = self.tree.get(id)?;
        if matches!(known.kind, Kind::Set | Kind::Coupled) {
            return Err(rustix::io::Errno::ROFS.into());
        }
        if change.size.is_some() {
            self.drop_set_ids(id, &known, caller)?;
        }
        if known.is_container() {
            self.change_container(id, &known, change)?;
        } else {
            self.change_plain(&known, handle, change)?;
        }
        self.attributes_of(id, handle)
    }

    fn change_container(&self, id: u64, known: &Known, change: &Change) -> Result<()> {
        let blob = self.blob(id, known)?;
        if let Some(size) = change.size {
            blob.write(|log| log.set_size(size))?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            blob.set_owner(change.uid, change.gid)?;
        }
        if let Some(mode) = change.mode {
            blob.set_mode(mode & 0o7777)?;
        }
        let (accessed, modified) = (moment(change.accessed), moment(change.modified));
        if accessed.is_some() || modified.is_some() {
            blob.set_times(accessed, modified)?;
        }
        Ok(())
    }

    fn change_plain(
        &self,
        known: &Known,
        handle: Option<FileHandle>,
        change: &Change,
    ) -> Result<()> {
        let path = held::path(&known.fd);
        if let Some(size) = change.size {
            let open = handle.and_then(|handle| self.handles.get(handle).ok());
            match open.as_deref() {
                // The right to do so was checked when the file was opened.
                Some(Open::Plain { file, .. }) => file.set_len(size)?,
                _ => held::reopen(&known.fd, OFlags::WRONLY.bits().cast_signed())?.set_len(size)?,
            }
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(&*known.fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(change.accessed),
                last_modification: timespec(change.modified),
            };
            rustix::fs::utimensat(&*known.fd, "", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_have_seconds_below_zero_and_nanoseconds_above() {
        let time = UNIX_EPOCH - Duration::from_millis(1500);
        let spec = timespec(Some(TimeOrNow::SpecificTime(time)));
        assert_eq!((spec.tv_sec, spec.tv_nsec), (-2, 500_000_000));
        let spec = timespec(Some(TimeOrNow::SpecificTime(UNIX_EPOCH + Duration::new(3, 7))));
        assert_eq!((spec.tv_sec, spec.tv_nsec), (3, 7));
    }
}

//! Attributes of files in the form of FUSE.

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use std::fs::{FileTimes, Metadata, Permissions};
use std::io::Result;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn kind(metadata: &Metadata) -> FileType {
    if metadata.is_dir() { FileType::Directory } else { FileType::RegularFile }
}

/// A time of `stat`; times before 1970 are shown as 1970.
fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let seconds = Duration::from_secs(seconds.try_into().unwrap_or(0));
    UNIX_EPOCH + seconds + Duration::from_nanos(nanoseconds.try_into().unwrap_or(0))
}

/// The attributes of the file with this metadata, under our inode number.
pub(crate) fn of(metadata: &Metadata, inode: INodeNo) -> FileAttr {
    FileAttr {
        ino: inode,
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: kind(metadata),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The attributes of a file that only exists here.
pub(crate) fn virtual_file(inode: INodeNo) -> FileAttr {
    FileAttr {
        ino: inode,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0o444,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The attributes that a program wants to change.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

impl Change {
    /// Makes the changes in the backing file.
    pub(crate) fn apply(&self, path: &Path) -> Result<()> {
        if let Some(mode) = self.mode {
            std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
        }
        if self.uid.is_some() || self.gid.is_some() {
            chown(path, self.uid, self.gid)?;
        }
        if let Some(size) = self.size {
            std::fs::File::options().write(true).open(path)?.set_len(size)?;
        }
        if self.accessed.is_none() && self.modified.is_none() {
            return Ok(());
        }
        let moment = |time: TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        };
        let mut times = FileTimes::new();
        if let Some(time) = self.accessed {
            times = times.set_accessed(moment(time));
        }
        if let Some(time) = self.modified {
            times = times.set_modified(moment(time));
        }
        std::fs::File::open(path)?.set_times(times)
    }
}

//! Attributes of files, as FUSE wants them.

use agg_core::blob::Attributes;
use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::Stat;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may cache names and attributes: others change the backing directory, too.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// The size that programs take for that of a good request.
const BLOCK: u32 = 1 << 20;

/// The kind of file according to a mode.
pub(crate) fn kind(mode: u32) -> FileType {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Whether this is a directory.
pub(crate) fn is_directory(stat: &Stat) -> bool {
    kind(stat.st_mode) == FileType::Directory
}

/// Whether this is a regular file.
pub(crate) fn is_regular(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile
}

/// A time of `stat`, also one before 1970.
fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(Duration::from_nanos(nanoseconds))).unwrap_or(UNIX_EPOCH)
}

/// The attributes of a file that is shown as it is, under our number.
pub(crate) fn of_plain(stat: &Stat, id: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(stat.st_mode),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: u32::try_from(stat.st_rdev).unwrap_or(u32::MAX),
        blksize: BLOCK,
        flags: 0,
    }
}

/// The attributes of a container: those of an ordinary file.
pub(crate) fn of_container(found: &Attributes, links: u32, id: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: found.size,
        blocks: found.blocks,
        atime: found.atime,
        mtime: found.mtime,
        ctime: found.ctime,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: (found.mode & 0o7777) as u16,
        nlink: links,
        uid: found.uid,
        gid: found.gid,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

/// The attributes of a set: those of its first file, with the size of all.
pub(crate) fn of_set(first: &Stat, size: u64, id: u64) -> FileAttr {
    let shown = of_plain(first, id);
    FileAttr { size, blocks: size.div_ceil(512), nlink: 1, ..shown }
}

/// The attributes of a container that cannot be read: enough to list it, but no bytes to read.
pub(crate) fn of_broken(directory: &Stat, id: u64) -> FileAttr {
    let shown = of_plain(directory, id);
    FileAttr { size: 0, kind: FileType::RegularFile, perm: shown.perm & 0o666, nlink: 1, ..shown }
}

//! Set-user-id and set-group-id bits go when somebody else changes a file, as in the kernel.
//!
//! The kernel leaves that to a file system that says it does so (`FUSE_HANDLE_KILLPRIV_V2`), and
//! so has no need to ask for attributes before every write.

use crate::attributes::is_regular;
use crate::blob::Blob;
use crate::held;
use crate::request::Caller;
use rustix::fs::{Mode, Stat};
use std::io::Result;
use std::os::fd::{AsFd, AsRawFd};

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// Both bits.
pub(crate) const SET_IDS: u32 = SET_USER | SET_GROUP;

/// Which bits of `mode`, of a file of group `gid`, do not survive a change by `caller`.
///
/// Without the right to execute, the set-group-id bit means nothing, and members of the group keep
/// it; the kernel passes one group only, so that members by another one lose it.
fn lost(mode: u32, gid: u32, caller: Caller) -> u32 {
    if caller.uid == 0 {
        return 0;
    }
    let keeps_group = mode & 0o010 == 0 && gid == caller.gid;
    mode & if keeps_group { SET_USER } else { SET_IDS }
}

/// The permission bits that are left of a regular file; `None` if all are.
fn left(stat: &Stat, caller: Caller) -> Option<Mode> {
    let lost = lost(stat.st_mode, stat.st_gid, caller);
    let left = Mode::from_raw_mode(stat.st_mode & 0o7777 & !lost);
    (is_regular(stat) && lost != 0).then_some(left)
}

/// Before `caller` changes the bytes of a file that is not a container.
pub(crate) fn drop_from_file(file: &(impl AsFd + AsRawFd), caller: Caller) -> Result<()> {
    match left(&rustix::fs::fstat(file)?, caller) {
        // A descriptor that only names the file can change no mode by itself.
        Some(mode) => Ok(rustix::fs::chmod(held::path(file), mode)?),
        None => Ok(()),
    }
}

/// Before `caller` changes the bytes of a container.
pub(crate) fn drop_from_container(blob: &Blob, caller: Caller) -> Result<()> {
    if caller.uid == 0 {
        return Ok(());
    }
    let found = blob.permissions()?;
    match lost(found.mode, found.gid, caller) {
        0 => Ok(()),
        lost => blob.set_mode(found.mode & !lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_changes_keeps_no_rights_of_its_owner() {
        let user = Caller { uid: 1000, gid: 100, umask: 0 };
        let root = Caller { uid: 0, gid: 0, umask: 0 };
        for (mode, gid, caller, expected) in [
            (0o4755, 0, user, 0o4000),
            (0o6755, 0, user, 0o6000),
            (0o6755, 100, user, 0o6000),
            (0o2745, 100, user, 0),
            (0o2745, 0, user, 0o2000),
            (0o1777, 0, user, 0),
            (0o6755, 0, root, 0),
        ] {
            assert_eq!(lost(mode, gid, caller), expected, "{mode:o} {gid}");
        }
    }

    #[test]
    fn a_file_loses_the_bits_also_by_a_descriptor_that_only_names_it() {
        use rustix::fs::OFlags;
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let user = Caller { uid: 65534, gid: 65534, umask: 0 };
        let folder = tempfile::tempdir().unwrap();
        for flags in [OFlags::PATH, OFlags::RDONLY] {
            let file = std::fs::File::create(folder.path().join("file")).unwrap();
            file.set_permissions(PermissionsExt::from_mode(0o6755)).unwrap();
            let fd = rustix::fs::open(folder.path().join("file"), flags, Mode::empty()).unwrap();
            std::fs::remove_file(folder.path().join("file")).unwrap();
            drop_from_file(&fd, Caller { uid: 0, ..user }).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o6755);
            drop_from_file(&fd, user).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o755);
        }
    }
}

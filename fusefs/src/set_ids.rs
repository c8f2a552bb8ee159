//! Set-user-id and set-group-id bits go when somebody else changes a file, as in the kernel.
//!
//! The kernel leaves that to a file system that says it does so (`FUSE_HANDLE_KILLPRIV_V2`), and
//! so has no need to ask for attributes before every write.

use crate::attributes::is_regular;
use crate::blob;
use crate::handles::Open;
use crate::held;
use crate::request::Caller;
use crate::tree::Known;
use crate::view::View;
use fuser::FileHandle;
use rustix::fs::{Mode, Stat};
use std::io::Result;

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

impl View {
    /// Before `caller` changes the bytes of an open file.
    pub(crate) fn drop_set_ids_of(&self, handle: FileHandle, caller: Caller) -> Result<()> {
        match &*self.handles.get(handle)? {
            Open::Plain { file, .. } => match left(&rustix::fs::fstat(file)?, caller) {
                Some(mode) => Ok(rustix::fs::fchmod(file, mode)?),
                None => Ok(()),
            },
            Open::Blob { blob, .. } => drop_in_container(blob, caller),
            Open::Set { .. } | Open::Generation { .. } | Open::Directory(_) => Ok(()),
        }
    }

    /// Before `caller` cuts or lengthens a file by its name.
    pub(crate) fn drop_set_ids(&self, id: u64, known: &Known, caller: Caller) -> Result<()> {
        if known.is_container() {
            return drop_in_container(&*self.blob(id, known)?, caller);
        }
        match left(&rustix::fs::fstat(&*known.fd)?, caller) {
            Some(mode) => Ok(rustix::fs::chmod(held::path(&known.fd), mode)?),
            None => Ok(()),
        }
    }
}

fn drop_in_container(blob: &blob::Blob, caller: Caller) -> Result<()> {
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
}

//! The attributes of a logical file, as `stat` reports them, and changes of them.

use crate::directory::user;
use crate::directory::{Dir, MANIFEST, c_path, log_id, log_name};
use crate::errors::{failed, refused};
use crate::file::container::Container;
use crate::format::{Manifest, dir_mode, part_mode};
use crate::order::Sequencer;
use crate::reading::Reader;
use aggio_base::{ErrorClass, Result};
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Attributes of a logical file, as `stat` reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes of the file.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Last access, as far as it was set.
    pub atime: SystemTime,
    /// Last change of the content.
    pub mtime: SystemTime,
    /// Last change of content or attributes.
    pub ctime: SystemTime,
    /// Generation of the manifest.
    pub generation: u64,
    /// Whether the container was not written since it was sealed.
    pub sealed: bool,
    /// A number that stays when the container is renamed.
    pub inode: u64,
    /// Units of 512 bytes that all parts together take.
    pub blocks: u64,
}

/// Mode and owner of a logical file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Attributes {
    /// Whether this process may read (4), write (2) or execute (1) the file, as the kernel would
    /// decide by mode and owner; the bits of all that is wanted.
    pub fn allows(&self, wanted: u32) -> bool {
        self.permissions().allows(wanted)
    }

    /// As [`allows`](Attributes::allows), where `part` is a file with the access list and the mode
    /// of the logical one, but that its owner may always read and write.
    pub fn allows_by(&self, wanted: u32, part: &Path) -> bool {
        self.permissions().allows_by(wanted, part)
    }

    fn permissions(&self) -> Permissions {
        let Attributes { mode, uid, gid, .. } = *self;
        Permissions { mode, uid, gid }
    }
}

impl Permissions {
    fn allows(self, wanted: u32) -> bool {
        // SAFETY: the call only returns a number of the process.
        let (uid, gid) = (user(), unsafe { libc::getegid() });
        if uid == 0 {
            return wanted & 1 == 0 || self.mode & 0o111 != 0;
        }
        let shift = if uid == self.uid {
            6
        } else if gid == self.gid || in_groups(self.gid) {
            3
        } else {
            0
        };
        wanted & !(self.mode >> shift) & 7 == 0
    }

    fn allows_by(self, wanted: u32, part: &Path) -> bool {
        let uid = user();
        if uid == 0 || uid == self.uid {
            return self.allows(wanted);
        }
        let by_list = (wanted & 6) as libc::c_int;
        // SAFETY: the path ends with a zero byte.
        let granted = c_path(part).is_ok_and(|part| unsafe {
            libc::faccessat(libc::AT_FDCWD, part.as_ptr(), by_list, libc::AT_EACCESS) == 0
        });
        granted && self.allows(wanted & 1)
    }
}

/// Set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;

fn in_groups(gid: u32) -> bool {
    // SAFETY: with size 0 the call only counts.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the buffer has room for `count` groups.
    let got = unsafe { libc::getgroups(count.max(0), groups.as_mut_ptr()) };
    groups[..usize::try_from(got).unwrap_or(0)].contains(&gid)
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    base.and_then(|base| base.checked_add(nanoseconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Every part that belongs to the container, by name.
pub(crate) fn parts(dir: &Dir) -> Result<Vec<String>> {
    let mut names = dir.names()?;
    names.retain(|name| {
        let known = name == MANIFEST || name == crate::directory::part_names::ORDER;
        known || log_id(name).is_some() || name.starts_with("index.")
    });
    Ok(names)
}

impl Container {
    /// Returns the attributes of the logical file.
    ///
    /// # Errors
    ///
    /// If the manifest, or the logs of a container that is being written, cannot be read.
    pub fn attributes(&self) -> Result<Attributes> {
        self.attributes_with(|| Ok(Reader::new(std::sync::Arc::clone(&self.shared))?.size()))
    }

    /// Mode and owner, without looking for the size.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be read.
    pub fn permissions(&self) -> Result<Permissions> {
        let dir = &self.shared.dir;
        let (owner, mode) = (owner_of(dir)?, Manifest::load(dir)?.mode);
        let (uid, gid) = (owner.uid(), owner.gid());
        let mut trusted = is_trusted((uid, owner.mode()), uid);
        if mode & SET_IDS != 0 {
            for name in parts(dir)? {
                let stat = dir.stat(&name)?;
                trusted &= stat.is_none_or(|stat| is_trusted((stat.st_uid, stat.st_mode), uid));
            }
        }
        Ok(Permissions { mode: granted(mode, trusted), uid, gid })
    }

    /// Metadata of the directory. Its owner is the owner of the logical file.
    pub(crate) fn owner(&self) -> Result<fs::Metadata> {
        owner_of(&self.shared.dir)
    }

    /// # Errors
    ///
    /// `EACCES` if this process may not write to the file.
    pub(crate) fn may_write(&self) -> Result<()> {
        let dir = &self.shared.dir;
        let owner = owner_of(dir)?;
        let mode = Manifest::load(dir)?.mode;
        let known = Permissions { mode, uid: owner.uid(), gid: owner.gid() };
        if known.allows_by(2, &dir.inside().join(MANIFEST)) {
            return Ok(());
        }
        let words = format!("mode {:o} does not let this process write", known.mode);
        Err(refused((ErrorClass::Access, libc::EACCES), dir.path(), words))
    }

    /// As [`Container::attributes`], with a function that returns the size of a container that is
    /// not sealed. A caller with an open reader has that size already.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be read, or `size` fails.
    pub fn attributes_with(&self, size: impl FnOnce() -> Result<u64>) -> Result<Attributes> {
        let dir = &self.shared.dir;
        let manifest = Manifest::load(dir)?;
        let (mut blocks, mut sealed, mut newest) = (0, true, None);
        // Logs of the manifest that are there as a whole.
        let mut whole = 0;
        let owner = owner_of(dir)?;
        let mut own = None;
        let mut trusted = is_trusted((owner.uid(), owner.mode()), owner.uid());
        for name in parts(dir)? {
            let Some(stat) = dir.stat(&name)? else { continue };
            trusted &= is_trusted((stat.st_uid, stat.st_mode), owner.uid());
            blocks += u64::try_from(stat.st_blocks).unwrap_or(0);
            if name == MANIFEST {
                own = Some(stat);
            } else if let Some(id) = log_id(&name) {
                let length = manifest.log(id).map(|log| log.length);
                sealed &= length == Some(stat.st_size as u64);
                whole +=
                    usize::from(length.is_some_and(|all| 0 < all && all <= stat.st_size as u64));
                newest = newest.max(Some(time(stat.st_mtime, stat.st_mtime_nsec)));
            }
        }
        let Some(own) = own else {
            return Err(failed("stat", &io::Error::from_raw_os_error(libc::ENOENT), dir.path()));
        };
        let damaged = whole < manifest.logs.iter().filter(|log| log.length > 0).count();
        // A damaged file keeps its recorded size: it can be listed and removed, but not read.
        let size = if sealed || damaged { manifest.size } else { size()? };
        sealed &= !damaged;
        let (atime, mtime) =
            (time(own.st_atime, own.st_atime_nsec), time(own.st_mtime, own.st_mtime_nsec));
        Ok(Attributes {
            size,
            mode: granted(manifest.mode, trusted),
            uid: owner.uid(),
            gid: owner.gid(),
            atime,
            mtime: newest.unwrap_or(mtime),
            ctime: newest.unwrap_or(mtime).max(time(own.st_ctime, own.st_ctime_nsec)),
            generation: manifest.generation,
            sealed,
            inode: inode(manifest.uuid),
            blocks,
        })
    }

    /// Sets the permission bits of the logical file and of all parts. No part has, at any time, a
    /// permission that neither the old nor the new mode gives.
    ///
    /// # Errors
    ///
    /// If a part cannot be changed.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let dir = &self.shared.dir;
        let order = Sequencer::open(dir, 0o600, false)?;
        let _turn = order.manifest_turn()?;
        let mut manifest = Manifest::load(dir)?;
        let mode = mode & 0o7777;
        if manifest.mode == mode {
            return Ok(());
        }
        self.chmod(manifest.mode & mode)?;
        manifest.mode = mode;
        manifest.generation += 1;
        self.replace(&manifest)?;
        self.chmod(mode)
    }

    /// Replaces the manifest and keeps its times: they are the access time of the file and, while
    /// it is empty, the modification time.
    fn replace(&self, manifest: &Manifest) -> Result<()> {
        let dir = &self.shared.dir;
        let path = dir.path_of(MANIFEST);
        let fail = |error: io::Error| failed("futimens", &error, &path);
        let old = dir.part(MANIFEST, false)?.metadata().map_err(fail)?;
        manifest.store(dir)?;
        let times = FileTimes::new()
            .set_accessed(old.accessed().map_err(fail)?)
            .set_modified(old.modified().map_err(fail)?);
        dir.part(MANIFEST, false)?.set_times(times).map_err(fail)
    }

    fn chmod(&self, mode: u32) -> Result<()> {
        let dir = &self.shared.dir;
        for name in parts(dir)? {
            let fail = |error: io::Error| failed("fchmod", &error, &dir.path_of(&name));
            let permissions = fs::Permissions::from_mode(part_mode(mode));
            dir.part(&name, false)?.set_permissions(permissions).map_err(fail)?;
        }
        let permissions = fs::Permissions::from_mode(dir_mode(mode));
        dir.file()
            .set_permissions(permissions)
            .map_err(|error| failed("fchmod", &error, dir.path()))
    }

    /// Changes the owner, the group, or both, of all parts. As with any file, the set-user-id bit
    /// goes, and the set-group-id bit where the group may execute.
    ///
    /// # Errors
    ///
    /// If a part cannot be changed.
    pub fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let dir = &self.shared.dir;
        for name in parts(dir)? {
            chown(&dir.part(&name, false)?, uid, gid, &dir.path_of(&name))?;
        }
        // Change the directory last: its owner counts as the owner of the file, with the rights
        // that the manifest grants.
        if self.drop_set_ids()? {
            chown(&dir.part(MANIFEST, false)?, uid, gid, &dir.path_of(MANIFEST))?;
        }
        chown(dir.file(), uid, gid, dir.path())
    }

    /// Clears the set-user-id bit, and the set-group-id bit where the group may execute, as the
    /// kernel does on a write by a process without `CAP_FSETID` (in practice any process but
    /// root's).
    ///
    /// # Errors
    ///
    /// If there are such bits and the manifest cannot be replaced.
    pub(crate) fn drop_set_ids_before_a_write(&self) -> Result<()> {
        if user() == 0 {
            return Ok(());
        }
        self.drop_set_ids().map(drop)
    }

    /// Clears the set-id bits that a new owner must not get. Returns whether there were any.
    fn drop_set_ids(&self) -> Result<bool> {
        let dir = &self.shared.dir;
        let lost = |mode: u32| mode & if mode & 0o010 == 0 { 0o4000 } else { SET_IDS };
        if lost(Manifest::load(dir)?.mode) == 0 {
            return Ok(false);
        }
        let order = Sequencer::open(dir, 0o600, false)?;
        let _turn = order.manifest_turn()?;
        let mut manifest = Manifest::load(dir)?;
        manifest.mode &= !lost(manifest.mode);
        manifest.generation += 1;
        self.replace(&manifest).map(|()| true)
    }

    /// Sets the times of the logical file; `None` leaves one as it is.
    ///
    /// # Errors
    ///
    /// If a part cannot be changed.
    pub fn set_times(&self, atime: Option<SystemTime>, mtime: Option<SystemTime>) -> Result<()> {
        let dir = &self.shared.dir;
        let set = |name: &str, atime: Option<SystemTime>| {
            let mut times = FileTimes::new();
            times = atime.map_or(times, |time| times.set_accessed(time));
            times = mtime.map_or(times, |time| times.set_modified(time));
            let fail = |error: io::Error| failed("futimens", &error, &dir.path_of(name));
            dir.part(name, false)?.set_times(times).map_err(fail)
        };
        set(MANIFEST, atime)?;
        if mtime.is_some() {
            dir.logs()?.into_iter().try_for_each(|id| set(&log_name(id), None))?;
        }
        Ok(())
    }
}

/// Whether a part with this owner and mode can have been made and changed by `owner` alone (and by
/// root, whose new parts get this owner).
fn is_trusted((uid, mode): (u32, u32), owner: u32) -> bool {
    uid == owner && mode & 0o022 == 0
}

/// The mode that a manifest grants. An untrusted manifest grants no set-id bits: a write by another
/// user clears them in an ordinary file, and such writes cannot be detected here.
fn granted(mode: u32, trusted: bool) -> u32 {
    if trusted && mode & 0o022 == 0 { mode } else { mode & !SET_IDS }
}

/// Metadata of the directory. Its owner is the owner of the logical file; the manifest may belong
/// to another user that sealed the container.
fn owner_of(dir: &Dir) -> Result<fs::Metadata> {
    dir.file().metadata().map_err(|error| failed("fstat", &error, dir.path()))
}

/// A number for `st_ino` that copies nothing of the file system; 0 and 1 mean something to others.
fn inode(uuid: u128) -> u64 {
    ((uuid >> 64) as u64 ^ uuid as u64).max(2)
}

fn chown(file: &File, uid: Option<u32>, gid: Option<u32>, path: &Path) -> Result<()> {
    fchown(file, uid, gid).map_err(|error| failed("fchown", &error, path))
}

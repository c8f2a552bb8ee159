//! Calls with names: they act on the file that a container is, where the kernel would act on the
//! directory.

use super::super::next;
use super::super::state::{self, Inside};
use super::super::times::times;
use super::super::{errno, readable_memory};
use super::paths::{Name, is_of_a_directory, named};
use super::set::{self, Named};
use super::table::OpenContainer;
use super::{change, facts, live, number, table};
use crate::config::drivers;
use crate::sets::is_forbidden;
use agg_core::blob::{self, Attributes, Container, is_container};
use libc::{c_int, c_uint, c_void, mode_t, off64_t};
use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Attempts to empty a directory in which other containers lose their names meanwhile.
const ATTEMPTS: usize = 8;

/// The object that a name stands for.
pub(super) enum Meant {
    Container(PathBuf),
    Set(Box<Named>),
    /// It may be a set; the error is the reason why this cannot be determined.
    Unknown(agg_core::Error),
}

/// The container or set that a name means, if it means one.
pub(super) fn meant(at: c_int, path: Name, follow: bool) -> Option<Meant> {
    if !state::has_containers() || Inside::is() || state::is_guest() {
        return None;
    }
    let _errno = errno::Keep::new();
    let _inside = Inside::enter();
    let path = named(at, path, follow)?;
    match set::find(&path) {
        Ok(Some(set)) => Some(Meant::Set(Box::new(set))),
        Err(error) if !is_forbidden(&error) => Some(Meant::Unknown(error)),
        _ => is_container(&path).then_some(Meant::Container(path)),
    }
}

/// The set that a name means, if it means one.
pub(super) fn set_of(at: c_int, path: Name, follow: bool) -> Option<Box<Named>> {
    match meant(at, path, follow)? {
        Meant::Set(set) => Some(set),
        _ => None,
    }
}

impl Meant {
    /// The container, for a change.
    pub(super) fn container(self) -> agg_core::Result<PathBuf> {
        match self {
            Meant::Container(path) => Ok(path),
            Meant::Set(set) => Err(set.refusal()),
            Meant::Unknown(error) => Err(error),
        }
    }

    /// The container, for a change of its bytes, which are kept only if that is wanted.
    fn into_changed(self, keeps: bool) -> agg_core::Result<PathBuf> {
        match self {
            Meant::Set(set) => set.change(keeps),
            other => other.container(),
        }
    }

    /// The file with the permissions that decide about changes; `None` if nobody may change it.
    fn guard(&self) -> Option<PathBuf> {
        match self {
            Meant::Container(path) => Some(path.join(blob::MANIFEST)),
            Meant::Set(set) => set.guard(),
            Meant::Unknown(_) => None,
        }
    }

    /// The attributes that `stat` reports, and the device. The size of a set is valid only if
    /// `sized`.
    fn facts(self, sized: bool) -> agg_core::Result<(Attributes, u64)> {
        match self {
            Meant::Container(path) => {
                Ok((Container::open(&path)?.attributes()?, facts::device(&path)))
            }
            Meant::Set(set) => {
                let device = set.identity().0;
                let known = if sized { set.open()?.attributes()? } else { set.permissions() };
                Ok((known, device))
            }
            Meant::Unknown(error) => Err(error),
        }
    }
}

pub(super) fn told(result: agg_core::Result<()>) -> c_int {
    result.map_or_else(|error| errno::fail(number(&error)) as c_int, |()| 0)
}

/// Calls `act` with the meaning of a name; `None` if the name is neither a container nor a set.
fn on(
    (at, path, follow): (c_int, Name, bool),
    act: impl FnOnce(Meant) -> agg_core::Result<()>,
) -> Option<c_int> {
    let name = path;
    let meant = meant(at, path, follow)?;
    if is_of_a_directory(name) {
        return Some(errno::fail(libc::ENOTDIR) as c_int);
    }
    let _inside = Inside::enter();
    Some(told(act(meant)))
}

/// Lets `act` change attributes of the container of a name, or `each` those of each file of the
/// set.
fn with(
    name: (c_int, Name, bool),
    act: impl FnOnce(&Container) -> agg_core::Result<()>,
    each: impl Fn(&Path) -> io::Result<()>,
) -> Option<c_int> {
    on(name, |meant| match meant {
        Meant::Set(set) => set.each_file(each),
        other => act(&Container::open(&other.container()?)?),
    })
}

/// Calls `act` with the attributes of the file that a name means (only mode and owner are valid),
/// and with the file that has the permissions for changes.
pub(super) fn look(
    name: (c_int, Name, bool),
    act: impl FnOnce(&Attributes, Option<&Path>) -> agg_core::Result<()>,
) -> Option<c_int> {
    on(name, |meant| {
        let guard = meant.guard();
        act(&meant.facts(false)?.0, guard.as_deref())
    })
}

pub(super) fn follows(flags: c_int) -> bool {
    flags & libc::AT_SYMLINK_NOFOLLOW == 0
}

/// The open container of the descriptor, if the call means the descriptor itself.
///
/// # Safety
/// `path` is a C string, null, or an address that cannot be read.
unsafe fn descriptor(at: c_int, path: Name, flags: c_int) -> Option<&'static OpenContainer> {
    // A program may pass an address that it cannot read, which the kernel refuses.
    let may_read = || readable_memory::readable(path.cast(), 1);
    // SAFETY: the byte can be read.
    let is_empty = || path.is_null() || may_read() && unsafe { *path == 0 };
    table::get(at).filter(|_| flags & libc::AT_EMPTY_PATH != 0 && is_empty())
}

/// The result of a call on a descriptor.
fn told_of(result: Result<(), c_int>) -> Option<c_int> {
    Some(result.map_or_else(|error| errno::fail(error) as c_int, |()| 0))
}

/// `stat`, `lstat` and `fstatat`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fstatat(at: c_int, path: Name, to: *mut c_void, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    if let Some(open) = unsafe { descriptor(at, path, flags) } {
        // SAFETY: the caller's promise.
        return told_of(facts::of_open(open).map(|facts| unsafe { facts.stat(to) }));
    }
    on((at, path, follows(flags)), |meant| {
        let (known, device) = meant.facts(true)?;
        // SAFETY: the caller's promise.
        unsafe { facts::facts(&known, device, 1).stat(to) };
        Ok(())
    })
}

/// `statx`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn statx(at: c_int, path: Name, flags: c_int, to: *mut c_void) -> Option<c_int> {
    // SAFETY: the caller's promise.
    if let Some(open) = unsafe { descriptor(at, path, flags) } {
        // SAFETY: the caller's promise.
        return told_of(facts::of_open(open).map(|facts| unsafe { facts.statx(to) }));
    }
    on((at, path, follows(flags)), |meant| {
        let (known, device) = meant.facts(true)?;
        // SAFETY: the caller's promise.
        unsafe { facts::facts(&known, device, 1).statx(to) };
        Ok(())
    })
}

/// `truncate`.
pub fn truncate(path: Name, size: off64_t) -> Option<c_int> {
    on((libc::AT_FDCWD, path, true), |meant| {
        let size = u64::try_from(size).map_err(|_| {
            agg_core::Error::new(agg_core::ErrorClass::Arg, "a negative size")
                .with_errno(libc::EINVAL)
        })?;
        let path = meant.into_changed(size > 0)?;
        let writer = Container::open(&path)?.writer()?;
        writer.set_size(size)?;
        writer.close()?;
        live::renew(table::identity_of(&path));
        Ok(())
    })
}

/// `unlink` and `unlinkat`.
pub fn unlink(at: c_int, path: Name, flags: c_int) -> Option<c_int> {
    if flags & libc::AT_REMOVEDIR != 0 {
        // `rmdir` of a file.
        return meant(at, path, false).map(|_| errno::fail(libc::ENOTDIR) as c_int);
    }
    on((at, path, false), |meant| match meant {
        Meant::Set(set) => set.remove(),
        other => {
            let path = other.container()?;
            take_away(&path)?;
            path.to_str().map_or(Ok(()), |path| drivers().remove_hidden(path))
        }
    })
}

/// Removes a container; one that somebody has open loses its name only.
pub(super) fn take_away(path: &Path) -> agg_core::Result<()> {
    let identity = table::identity_of(path);
    blob::remove(path)?;
    for open in table::on(identity) {
        // A signal handler that interrupts a call on this very file leaves it: its writes wait
        // where they would not.
        let _ = open.locked(|_, state| {
            state.nameless = true;
            Ok(())
        });
    }
    Ok(())
}

/// Lets the kernel remove or replace a directory. Containers in it that have lost their names do
/// not count: they are moved to the directory above. If this fails, the error gives the reason; a
/// directory that cannot be listed counts as not empty, as in the kernel.
pub fn without_directory(at: c_int, path: Name, kernel: impl Fn() -> c_int) -> c_int {
    let is_filled = || matches!(errno::get(), libc::ENOTEMPTY | libc::EEXIST);
    for _ in 0..ATTEMPTS {
        let done = kernel();
        let is_served = || state::has_containers() && !Inside::is() && !state::is_guest();
        if done == 0 || !is_filled() || !is_served() {
            return done;
        }
        let before = errno::Keep::new();
        let inside = Inside::enter();
        let lifted = named(at, path, false).map_or(Ok(false), |path| blob::lift_removed(&path));
        drop(inside);
        drop(before);
        match lifted {
            Ok(true) => {}
            Err(error) if error.errno() != libc::EACCES => {
                return errno::fail(number(&error)) as c_int;
            }
            _ => return done,
        }
    }
    kernel()
}

/// `fchmodat`.
pub fn fchmodat(at: c_int, path: Name, mode: mode_t, flags: c_int) -> Option<c_int> {
    with(
        (at, path, follows(flags)),
        |container| container.set_mode(mode & 0o7777),
        |file| std::fs::set_permissions(file, Permissions::from_mode(mode & 0o7777)),
    )
}

/// `fchownat`.
pub fn fchownat(at: c_int, path: Name, user: c_uint, group: c_uint, flags: c_int) -> Option<c_int> {
    // SAFETY: the program's path is a C string.
    if let Some(open) = unsafe { descriptor(at, path, flags) } {
        return told_of(change::change_owner(open, user, group));
    }
    let (user, group) = (change::who(user), change::who(group));
    with(
        (at, path, follows(flags)),
        |container| container.set_owner(user, group),
        |file| std::os::unix::fs::chown(file, user, group),
    )
}

/// `utimensat`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn utimensat(at: c_int, path: Name, both: *const c_void, flags: c_int) -> Option<c_int> {
    if let Some(open) = table::get(at).filter(|_| path.is_null()) {
        // SAFETY: the caller's promise.
        return told_of(unsafe { change::change_times(open, both) });
    }
    // SAFETY: the caller's promise.
    let times = || unsafe { times(both) };
    with(
        (at, path, follows(flags)),
        |container| {
            let [access, changed] = times().map_err(no_times)?;
            container.set_times(access, changed)
        },
        |file| {
            times().map_err(io::Error::from_raw_os_error)?;
            // SAFETY: a C string, and the caller's promise.
            match unsafe {
                next::utimensat(libc::AT_FDCWD, c_name(file)?.as_ptr(), both.cast_mut(), 0)
            } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        },
    )
}

fn no_times(errno: c_int) -> agg_core::Error {
    agg_core::Error::new(agg_core::ErrorClass::Arg, "no times").with_errno(errno)
}

fn c_name(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

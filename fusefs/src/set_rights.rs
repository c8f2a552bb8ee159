//! The rights to read a set: a user needs the right to read each of its files. This process may
//! have more rights than the users that it reads for.

use crate::lists;
use crate::tree::open_name;
use aggio_formats::Set;
use aggio_formats::files::Guard;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Rights of anybody.
const ALL: u32 = 0o777;
/// Rights to read.
const READS: u32 = 0o444;

/// Demands nothing but that no file of a set is a symbolic link.
pub(crate) fn without_links() -> Guard {
    Guard::new(|_| Ok(()))
}

/// The permission bits that all files of a set in `directory` give, as if each had the owner and
/// the group of the `first`.
pub(crate) fn of_all(directory: &OwnedFd, set: &Set, first: &Stat) -> Result<u32> {
    let mut bits = ALL;
    for name in set.files() {
        match open_name(directory, OsStr::new(&name)) {
            Ok(file) => bits &= as_of(&file, first)?,
            // Opening the set reports it.
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(why),
        }
    }
    Ok(bits)
}

/// The first file with these permission bits.
pub(crate) fn shown(first: &Stat, bits: u32) -> Stat {
    let mut shown = *first;
    shown.st_mode &= !ALL | bits;
    shown
}

/// Refuses files that give fewer rights to read than the set that is shown with these `bits`: they
/// have their names since.
pub(crate) fn guard(first: Stat, bits: u32) -> Guard {
    let wanted = shown(&first, bits).st_mode & READS;
    Guard::new(move |file| match wanted & !as_of(file, &first)? {
        0 => Ok(()),
        _ => Err(Errno::ACCESS.into()),
    })
}

/// The permission bits of a file as if it had the owner and the group of `first`: of another one's
/// file those that everybody has. An access list may refuse anybody but the owner.
fn as_of(file: &(impl AsFd + AsRawFd), first: &Stat) -> Result<u32> {
    let stat = rustix::fs::fstat(file)?;
    let mode = stat.st_mode & ALL;
    let is_own = (stat.st_uid, stat.st_gid) == (first.st_uid, first.st_gid);
    let bits = if is_own { mode } else { (mode >> 6 & mode >> 3 & mode & 7) * 0o111 };
    let owned = if is_own { 0o700 } else { 0 };
    Ok(if lists::is_on(file)? { bits & owned } else { bits })
}

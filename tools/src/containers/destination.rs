//! Where the bytes of a merge go: to an ordinary file, which is made anew, or to something that
//! takes bytes one after the other.

use super::at;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// Where bytes go.
pub(super) enum Destination {
    /// An ordinary file, which may not be there yet.
    File,
    /// Standard output, a FIFO or a device.
    Stream(File),
}

impl Destination {
    /// That of the name `to`; a device that stores blocks is written to only with `force`.
    ///
    /// The opened file is the inspected one, even if another file gets its name meanwhile.
    pub(super) fn of(to: &Path, force: bool) -> std::result::Result<Self, String> {
        let told = |why: Error| at(to, why);
        if to.as_os_str() == STANDARD_OUTPUT {
            return standard_output().map(Destination::Stream).map_err(told);
        }
        // A missing file, or a link to one, is checked when the file is made.
        let Some((found, is_link)) = look(to).map_err(told)? else { return Ok(Destination::File) };
        let facts = found.metadata().map_err(told)?;
        let kind = facts.file_type();
        if kind.is_block_device() && !force {
            return Err(at(to, "a device that stores data (--force writes over them)"));
        }
        if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
            return open(&found).map(Destination::Stream).map_err(told);
        }
        // `/dev/stdout`, if that is a file.
        let output = standard_output().map_err(told)?;
        let same =
            |other: std::fs::Metadata| (other.dev(), other.ino()) == (facts.dev(), facts.ino());
        if is_link && output.metadata().is_ok_and(same) {
            return Ok(Destination::Stream(output));
        }
        Ok(Destination::File)
    }
}

/// The file of this name, unopened, and whether the name is a symbolic link to it, which is
/// followed if it is this user's or root's; `None` if there is no file of this name.
fn look(to: &Path) -> Result<Option<(File, bool)>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = |path: &Path, flags| match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(why) if Error::from(why).kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Error::from(why)),
    };
    let Some(named) = opened(to, flags | OFlags::NOFOLLOW)? else { return Ok(None) };
    let facts = named.metadata()?;
    if !facts.is_symlink() {
        return Ok(Some((named, false)));
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&facts.uid()) {
        return Err(Error::other("a symbolic link of another user"));
    }
    // Of the link that was looked at: another may have its name now.
    let target = rustix::fs::readlinkat(&named, "", Vec::new())?;
    let folder = to.parent().unwrap_or(Path::new(""));
    let found = opened(&folder.join(OsStr::from_bytes(target.as_bytes())), flags)?;
    Ok(found.map(|found| (found, true)))
}

/// Opens the inspected file.
fn open(found: &File) -> Result<File> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn standard_output() -> Result<File> {
    Ok(File::from(rustix::stdio::stdout().try_clone_to_owned()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_gets_the_name_of_a_device_after_the_look_is_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("victim"), "kept").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for target in [Path::new("/dev/null"), &path("victim")] {
                        symlink(target, path("new")).unwrap();
                        std::fs::rename(path("new"), path("to")).unwrap();
                    }
                }
            });
            while !path("to").is_symlink() {
                std::thread::yield_now();
            }
            let mut wrong = 0;
            for _ in 0..20_000 {
                if let Destination::Stream(stream) = Destination::of(&path("to"), false).unwrap() {
                    let kind = stream.metadata().unwrap().file_type();
                    wrong += usize::from(!kind.is_char_device());
                }
            }
            done.store(true, Ordering::Relaxed);
            assert_eq!(wrong, 0, "times the file was opened instead of the device");
        });
        // Without haste it is the device.
        std::fs::remove_file(path("to")).unwrap();
        symlink("/dev/null", path("to")).unwrap();
        assert!(matches!(Destination::of(&path("to"), false), Ok(Destination::Stream(_))));
    }
}

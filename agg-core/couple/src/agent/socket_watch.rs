//! Whether programs can still find the agent: not once its socket, or the directory, is gone.

use crate::fd::checked;
use crate::place::Place;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Events that change a directory, or take names out of it.
const CHANGES: u32 =
    libc::IN_DELETE | libc::IN_MOVED_FROM | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;

/// The directory of the agent, with a watch for the removal of its socket.
#[derive(Debug)]
pub(super) struct SocketWatch {
    place: Place,
    _lock: OwnedFd,
    socket: PathBuf,
    identity: (u64, u64),
    events: OwnedFd,
    lost: bool,
}

impl SocketWatch {
    /// Of the socket of `place`, which exists. The place is locked.
    pub(super) fn new(place: Place, lock: OwnedFd) -> io::Result<Self> {
        let socket = place.visible("sock");
        let identity = identity(&socket)?;
        // SAFETY: no memory is involved.
        let events = checked(unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) })?;
        let fd = events.as_raw_fd();
        let directory = CString::new(place.path().as_os_str().to_owned().into_vec())?;
        // SAFETY: the name is a terminated string.
        if unsafe { libc::inotify_add_watch(fd, directory.as_ptr(), CHANGES) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { place, _lock: lock, socket, identity, events, lost: false })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Takes the names of the agent away, unless they may be another agent's by now.
    pub(super) fn leave(&self) {
        if !self.lost {
            ["sock", "start", "lock"].into_iter().for_each(|name| self.place.remove(name));
        }
    }

    /// Readable when names were taken out of the directory.
    pub(super) fn events(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Looks for the socket again if something has changed.
    pub(super) fn hear(&mut self) {
        let mut buffer = [0u8; 4096];
        let mut changed = false;
        // SAFETY: the kernel writes at most the bytes of the local buffer.
        while unsafe { libc::read(self.events(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {
            changed = true;
        }
        self.lost |= changed && identity(&self.socket).ok() != Some(self.identity);
    }

    /// Whether no program can connect any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }
}

/// Device and inode of the file of this name.
fn identity(name: &PathBuf) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(name).map(|facts| (facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_with_socket(path: &str) -> (Place, SocketWatch) {
        let place = Place::open(path).unwrap();
        fs::write(place.visible("sock"), "").unwrap();
        let lock = place.lock("lock").unwrap().unwrap();
        (Place::open(path).unwrap(), SocketWatch::new(place, lock).unwrap())
    }

    #[test]
    fn the_agent_is_lost_when_its_socket_its_directory_or_the_name_of_either_is_gone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        let at = |name: &str| place_with_socket(path(name).to_str().unwrap());

        let (place, mut watch) = at("other-files");
        fs::write(place.visible("log"), "").unwrap();
        place.remove("log");
        watch.hear();
        assert!(!watch.is_lost(), "a file that is none of the agent's");
        place.remove("sock");
        watch.hear();
        assert!(watch.is_lost());

        let (place, mut watch) = at("replaced");
        fs::write(place.visible("new"), "").unwrap();
        fs::rename(place.visible("new"), place.visible("sock")).unwrap();
        watch.hear();
        assert!(watch.is_lost(), "another socket has the name");

        let (_place, mut watch) = at("removed");
        fs::remove_dir_all(path("removed")).unwrap();
        watch.hear();
        assert!(watch.is_lost());

        let (_place, mut watch) = at("moved");
        fs::rename(path("moved"), path("elsewhere")).unwrap();
        watch.hear();
        assert!(watch.is_lost());
    }
}

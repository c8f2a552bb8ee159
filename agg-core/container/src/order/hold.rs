//! Holds keep the parts of a container after its name is removed. As with an ordinary file, the
//! name goes at once, and the content when the last process closes it.

use crate::directory::{Dir, ORDER};
use crate::order::sequencer::Sequencer;
use aggio_base::log::Level;
use aggio_base::{Error, Result, log};
use std::fs::File;
use std::path::PathBuf;

/// Keeps the parts of the container as long as it exists in any process that inherited it.
#[derive(Debug)]
pub struct Hold {
    /// Has the lock.
    order: Sequencer,
}

/// Whether a process needs the parts of a container.
pub(crate) enum Need {
    /// No process does, and none can as long as this lives.
    None(Option<Sequencer>),
    /// A process has it open, or is removing it.
    Some,
    /// Unknown, because the locks failed with this error.
    Unknown(Error),
}

impl Hold {
    /// Whether the next program in this process inherits it, which then is to
    /// [end](crate::file::names::end_inherited) it.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn set_inherited(&self, is: bool) -> Result<()> {
        self.order.set_inherited(is)
    }

    /// Takes a hold with a file that is already open on the part `order`; best effort. The caller
    /// must have a hold.
    pub(crate) fn extend_to(file: File, path: PathBuf) -> File {
        let order = Sequencer::of(file, path);
        // The caller's own hold keeps the parts; this one outlives it if its lock succeeds.
        let _ = order.need_parts();
        order.into_file()
    }
}

/// As [`Container::hold`](crate::file::container::Container::hold).
pub(crate) fn hold(dir: &Dir) -> Result<Option<Hold>> {
    let file = match dir.part(ORDER, false) {
        Err(error) if error.errno() == libc::ENOENT => {
            // A container is one without the file, too, but not if it is being removed.
            return if dir.stat(crate::directory::part_names::MANIFEST)?.is_some() {
                Ok(None)
            } else {
                Err(error)
            };
        }
        // A process that may only write cannot take a hold.
        Err(error) if matches!(error.errno(), libc::EACCES | libc::EPERM) => return Ok(None),
        other => other?,
    };
    let order = Sequencer::of(file, dir.path_of(ORDER));
    match order.need_parts() {
        Ok(true) if order.has_name() => Ok(Some(Hold { order })),
        Ok(_) => Err(gone(dir)),
        // A file system without locks, where no process can take a hold.
        Err(_) => Ok(None),
    }
}

/// Whether anybody needs the parts of `dir`.
pub(crate) fn need(dir: &Dir) -> Result<Need> {
    let (file, writable) = match dir.part(ORDER, true) {
        Ok(file) => (file, true),
        // It is the first part that a container has and the last that goes.
        Err(error) if error.errno() == libc::ENOENT => return Ok(Need::None(None)),
        Err(_) => (dir.part(ORDER, false)?, false),
    };
    let order = Sequencer::of(file, dir.path_of(ORDER));
    let free = if writable { order.take_parts() } else { order.are_parts_needed().map(|is| !is) };
    Ok(match free {
        Ok(false) => Need::Some,
        Ok(true) => Need::None(Some(order)),
        Err(error) => Need::Unknown(error),
    })
}

/// Removes the parts of `dir` by `remove` unless somebody needs them, or nobody can know; whether
/// they are gone.
pub(crate) fn unless_needed(dir: &Dir, remove: impl FnOnce() -> Result<()>) -> Result<bool> {
    match need(dir)? {
        Need::Some => Ok(false),
        Need::None(_until_it_is_gone) => remove().map(|()| true),
        Need::Unknown(error) => {
            let path = dir.path_now();
            let path = path.display();
            log!(Level::Warn, "{path} stays: whether somebody needs it, nobody knows: {error}");
            Ok(false)
        }
    }
}

fn gone(dir: &Dir) -> Error {
    crate::errors::failed("open", &std::io::Error::from_raw_os_error(libc::ENOENT), dir.path())
}

#[cfg(test)]
mod tests {
    use crate::file::container::{Container, Create};
    use crate::file::names::remove;

    fn container(path: &std::path::Path) -> Container {
        let how = Create { mode: 0o644, exclusive: true, data_crc: true };
        let container = Container::create(path, &how).unwrap();
        let writer = container.writer().unwrap();
        writer.write_at(b"bytes", 0).unwrap();
        writer.close().unwrap();
        container
    }

    fn read(container: &Container) -> Vec<u8> {
        let mut bytes = [0; 5];
        container.reader().unwrap().read_at(&mut bytes, 0).unwrap();
        bytes.to_vec()
    }

    #[test]
    fn a_removed_container_lives_until_the_last_hold_ends_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("c");
        let entries = || std::fs::read_dir(place.path()).unwrap().count();
        let (first, second) = (container(&path), Container::open(&path).unwrap());
        let holds = [first.hold().unwrap().unwrap(), second.hold().unwrap().unwrap()];
        remove(&path).unwrap();
        assert!(!path.exists() && first.removed().is_some());
        // A new one of the name is another one, and goes at once.
        assert_eq!(read(&container(&path)), b"bytes");
        remove(&path).unwrap();
        assert_eq!((read(&first), entries()), (b"bytes".to_vec(), 1));
        let writer = second.writer().unwrap();
        writer.write_at(b"BY", 0).unwrap();
        writer.close().unwrap();
        assert_eq!(read(&first), b"BYtes");
        let [one, other] = holds;
        first.release(one).unwrap();
        assert_eq!((read(&second), entries()), (b"BYtes".to_vec(), 1));
        second.release(other).unwrap();
        assert_eq!(entries(), 0);
        assert_eq!(second.hold().unwrap_err().errno(), libc::ENOENT);
    }

    #[test]
    fn what_is_replaced_by_rename_lives_on_for_who_has_it_open() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("c"), place.path().join("d"));
        let open = container(&path);
        let hold = open.hold().unwrap().unwrap();
        drop(container(&other));
        crate::file::names::rename(&other, &path).unwrap();
        assert_eq!(read(&open), b"bytes");
        open.release(hold).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }
}

//! Where programs that use a container as a file put their locks: on the file `order`, behind the
//! bytes that writers lock for themselves.

use crate::directory::ORDER;
use crate::file::container::Container;
use crate::format::{Manifest, part_mode};
use crate::order::{Hold, Sequencer};
use aggio_base::Result;
use std::fs::File;

/// A lock on a byte of the logical file is one on that byte and this many more of the file that
/// [`Container::lock_file`] opens.
pub const LOCKS_FROM: i64 = 4096;

impl Container {
    /// The file that carries the locks of programs, in a description of its own; for reading only
    /// where this process may not write to it. It is the same file as long as the container lives;
    /// where it is missing, it is made if `make`.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is missing and is not or cannot be made.
    pub fn lock_file(&self, make: bool) -> Result<File> {
        let dir = &self.shared.dir;
        // Programs inherit it, and with it the parts, while they are started.
        let extend = |file| Hold::extend_to(file, dir.path_of(ORDER));
        self.order_file(make).map(extend)
    }

    /// Device and inode of that file; `None` where it is missing.
    ///
    /// # Errors
    ///
    /// If it cannot be looked at.
    pub fn lock_identity(&self) -> Result<Option<(u64, u64)>> {
        let found = self.shared.dir.stat(ORDER)?;
        Ok(found.map(|stat| (stat.st_dev, stat.st_ino)))
    }

    /// The same file, which does not keep the parts.
    pub fn order_file(&self, make: bool) -> Result<File> {
        let dir = &self.shared.dir;
        match dir.part(ORDER, true) {
            Err(error) if make && error.errno() == libc::ENOENT => {
                let mode = part_mode(Manifest::load(dir)?.mode);
                Sequencer::open(dir, mode, false)?;
                dir.part(ORDER, true)
            }
            Err(error) if matches!(error.errno(), libc::EACCES | libc::EPERM | libc::EROFS) => {
                dir.part(ORDER, false)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::container::Create;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn all_see_one_file_for_locks_whatever_becomes_of_the_container() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("c");
        let how = Create { mode: 0o644, exclusive: true, data_crc: true };
        let container = Container::create(&path, &how).unwrap();
        let inode =
            |container: &Container| container.lock_file(true).unwrap().metadata().unwrap().ino();
        let before = inode(&container);
        let writer = container.writer().unwrap();
        writer.write_at(b"bytes", 0).unwrap();
        writer.close().unwrap();
        container.set_mode(0o600).unwrap();
        assert_eq!(inode(&Container::open(&path).unwrap()), before);
        std::fs::remove_file(path.join(ORDER)).unwrap();
        assert_eq!(container.lock_file(false).unwrap_err().errno(), libc::ENOENT);
        let made = inode(&container);
        assert_eq!(inode(&Container::open(&path).unwrap()), made);
        assert_eq!(container.reader().unwrap().size(), 5);
    }
}

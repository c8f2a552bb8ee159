//! Open files.

use fuser::FileHandle;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The object behind a handle.
#[derive(Debug)]
pub(crate) enum Open {
    /// A file of the backing directory.
    File(File),
    /// The numbers of requests at the time of opening.
    Text(Vec<u8>),
}

impl Open {
    /// Reads up to `size` bytes, fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>> {
        let file = match self {
            Open::File(file) => file,
            Open::Text(text) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                return Ok(text[start..text.len().min(start.saturating_add(size))].to_vec());
            }
        };
        let (mut data, mut filled) = (vec![0; size], 0);
        while filled < size {
            match file.read_at(&mut data[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// The file behind it, for changes.
    pub(crate) fn file(&self) -> Result<&File> {
        match self {
            Open::File(file) => Ok(file),
            Open::Text(_) => Err(Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

/// All open files.
#[derive(Default)]
pub(crate) struct Handles {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Open>>>,
}

impl Handles {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        // The table is whole between any two of its calls.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, open: Open) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::new(open));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<Open>> {
        self.lock().get(&handle.0).cloned().ok_or(Error::from_raw_os_error(libc::EBADF))
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        self.lock().remove(&handle.0);
    }
}

/// Opens a backing file with the access mode of `flags`, and those of `kept` that `flags` has.
pub(crate) fn open_backing(path: &Path, flags: i32, kept: i32, mode: u32) -> Result<File> {
    let access = flags & libc::O_ACCMODE;
    let writes = access != libc::O_RDONLY;
    let has = |flag: i32| flags & kept & flag != 0;
    File::options()
        .read(access != libc::O_WRONLY)
        .write(writes)
        .create(has(libc::O_CREAT) && writes)
        .create_new(has(libc::O_CREAT) && has(libc::O_EXCL) && writes)
        .truncate(has(libc::O_TRUNC) && writes)
        .mode(mode)
        .open(path)
}

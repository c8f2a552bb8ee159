//! The pages of logs in which bytes of the file are changed in place.

use crate::directory::log_name;
use crate::errors::failed;
use crate::reading::{Placed, Shared};
use aggio_base::{Extent, Result, os};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are made zeros at a time.
const CHUNK: u64 = 1 << 20;

/// The logs with bytes that were or may be changed in place.
#[derive(Debug)]
pub(crate) struct MappedPages {
    shared: Arc<Shared>,
    /// The logs by their ids.
    logs: Mutex<HashMap<u64, Arc<File>>>,
}

impl MappedPages {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, logs: Mutex::default() }
    }

    /// A log, opened to be changed in place or mapped.
    pub(crate) fn file(&self, id: u64) -> Result<Arc<File>> {
        let mut changed = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = changed.get(&id) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.shared.dir.part(&log_name(id), true)?);
        changed.insert(id, Arc::clone(&file));
        Ok(file)
    }

    /// Makes the bytes durable that were or may have been changed in place.
    pub(crate) fn sync(&self) -> Result<()> {
        let changed = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let fail = |id: &u64, error: &std::io::Error| {
            failed("fdatasync", error, &self.shared.dir.path_of(&log_name(*id)))
        };
        changed.iter().try_for_each(|(id, file)| file.sync_data().map_err(|error| fail(id, &error)))
    }

    /// Changes bytes of a log in place.
    pub(crate) fn write(&self, id: u64, bytes: &[u8], place: u64) -> Result<()> {
        let path = || self.shared.dir.path_of(&log_name(id));
        let written = self.file(id)?.write_all_at(bytes, place);
        written.map_err(|error| failed("pwrite", &error, &path()))
    }

    /// Makes bytes of a log zeros; where that can be, they take no room.
    pub(crate) fn clear(&self, placed: Placed) -> Result<()> {
        let (file, len) = (self.file(placed.log)?, placed.logical.len);
        let hole = Extent::new(placed.place, len);
        if len >= CHUNK && os::punch(file.as_raw_fd(), hole).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; CHUNK.min(len) as usize];
        for at in (0..len).step_by(CHUNK as usize) {
            let some = CHUNK.min(len - at) as usize;
            self.write(placed.log, &zeros[..some], placed.place + at)?;
        }
        Ok(())
    }
}

//! Descriptors of logs that are being read: opened on demand, at most a quarter of the descriptors
//! that the process may have.

use crate::directory::{Dir, StagedLog, log_name};
use crate::errors::{damaged_at, failed};
use crate::format::{HEADER, frame};
use aggio_base::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most logs that stay open, with any limit of the process.
const MOST: usize = 256;

/// Open logs. The least recently used one is closed first.
#[derive(Debug)]
pub(crate) struct Descriptors {
    most: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Opened>,
    clock: u64,
}

#[derive(Debug)]
struct Opened {
    file: Arc<File>,
    /// When it was used.
    used: u64,
    /// Its bytes may wait in a directory of the node; once they are drained, this is another file.
    is_staged: bool,
}

impl Descriptors {
    /// None open yet.
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero bytes are a valid `rlimit`, which is plain numbers.
        let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to an `rlimit`.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
        let quarter = usize::try_from(limit.rlim_cur / 4).unwrap_or(MOST);
        let most = if known { quarter.clamp(1, MOST) } else { 16 };
        Self { most, table: Mutex::default() }
    }

    /// The log with this id, opened for reading.
    pub(crate) fn get(&self, dir: &Dir, id: u64) -> Result<Arc<File>> {
        if let Some(file) = self.cached(id) {
            return Ok(file);
        }
        let is_staged = StagedLog::waits(dir, id);
        let file = match dir.part(&log_name(id), false) {
            Err(error) if matches!(error.errno(), libc::EMFILE | libc::ENFILE) => {
                self.shrink_to(0);
                dir.part(&log_name(id), false)?
            }
            other => other?,
        };
        owned(&file, dir, id)?;
        let file = Arc::new(file);
        self.shrink_to(self.most - 1);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.clock += 1;
        let used = table.clock;
        table.open.insert(id, Opened { file: Arc::clone(&file), used, is_staged });
        Ok(file)
    }

    /// Logs that were drained since they were opened are opened anew from now on.
    pub(crate) fn forget_drained(&self, dir: &Dir) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.open.retain(|id, opened| !opened.is_staged || StagedLog::waits(dir, *id));
    }

    /// Logs are opened anew from now on.
    pub(crate) fn forget_all(&self) {
        self.shrink_to(0);
    }

    /// The same descriptor as before, if there is one.
    fn cached(&self, id: u64) -> Option<Arc<File>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.clock += 1;
        let clock = table.clock;
        let opened = table.open.get_mut(&id)?;
        opened.used = clock;
        Some(Arc::clone(&opened.file))
    }

    fn shrink_to(&self, most: usize) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        while table.open.len() > most {
            let oldest = table.open.iter().min_by_key(|(_, one)| one.used).map(|(id, _)| *id);
            if let Some(id) = oldest {
                table.open.remove(&id);
            }
        }
    }
}

/// Refuses a log that begins with a frame of another log.
fn owned(file: &File, dir: &Dir, id: u64) -> Result<()> {
    let mut header = [0; HEADER];
    let begins = file.read_exact_at(&mut header, 0).is_ok();
    let Some(own) = begins.then(|| frame::owner(&header)).flatten().filter(|own| *own != id) else {
        return Ok(());
    };
    let words = format!("the log of this name has the frames of {}", log_name(own));
    Err(damaged_at(&dir.path_of(&log_name(id)), words))
}

/// The error for a log that has fewer bytes than it should.
pub(crate) fn too_short(dir: &Dir, id: u64, place: u64) -> Error {
    let words = format!("the log ends before byte {place}, where the index says data is");
    damaged_at(&dir.path_of(&log_name(id)), words)
}

/// The error of a read from a log.
pub(crate) fn read_failed(dir: &Dir, id: u64, error: &std::io::Error) -> Error {
    failed("preadv", error, &dir.path_of(&log_name(id)))
}

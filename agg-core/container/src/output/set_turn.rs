//! The turn of a process that gives the files of a set their names: two processes at once could
//! leave a set with files of both.

use crate::errors::{failed, refused};
use crate::output::{parent_of, try_lock};
use aggio_base::{ErrorClass, Result};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Naming takes much less.
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });

/// As long as it lives, this process names files of sets in a directory.
#[derive(Debug)]
pub struct SetTurn {
    /// Holds the lock, on the directory; `None` where a directory cannot have one.
    _folder: Option<File>,
}

impl SetTurn {
    /// Waits for the turn in the directory of `to`.
    ///
    /// # Errors
    /// `EBUSY` if somebody holds the lock longer than any naming takes.
    pub fn take(to: &Path) -> Result<Self> {
        let folder = parent_of(to);
        let file = File::open(&folder).map_err(|error| failed("open", &error, &folder))?;
        let begun = Instant::now();
        loop {
            match try_lock(&file) {
                Ok(()) => return Ok(Self { _folder: Some(file) }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok(Self { _folder: None }),
            }
            if begun.elapsed() > LONGEST {
                let words = "somebody holds a lock on the directory";
                return Err(refused((ErrorClass::FileInUse, libc::EBUSY), &folder, words));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

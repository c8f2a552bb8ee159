//! Checks that the logs of a manifest exist with at least the length that it records: missing bytes
//! are damage, never zeros.

use crate::directory::{Dir, log_name};
use crate::errors::damaged_at;
use crate::format::{Manifest, SealedLog};
use aggio_base::{Error, Result};

/// Refuses a container if a sealed log is missing or too short. `length_of` returns the apparent
/// length of a log, `None` if there is no such log.
///
/// # Errors
///
/// `EIO` that names the first log that is missing or too short.
pub(crate) fn demand(
    manifest: &Manifest,
    dir: &Dir,
    length_of: impl Fn(u64) -> Option<u64>,
) -> Result<()> {
    let lacks = |log: &&SealedLog| length_of(log.id).unwrap_or(0) < log.length;
    for log in manifest.logs.iter().filter(lacks) {
        // On a shared file system the length in the directory may be old; that of an open file is
        // current.
        let there = match dir.part(&log_name(log.id), false) {
            Ok(file) => file.metadata().ok().map(|facts| facts.len()),
            Err(error) if error.errno() == libc::ENOENT => None,
            Err(error) => return Err(error),
        };
        if there.unwrap_or(0) < log.length {
            return Err(lacking(dir, log, there));
        }
    }
    Ok(())
}

/// The error for a sealed log with only `there` bytes; `None` if the log is missing.
fn lacking(dir: &Dir, log: &SealedLog, there: Option<u64>) -> Error {
    let words = match there {
        None => format!("this log of {} bytes is missing", log.length),
        Some(there) => format!("bytes {there}..{} of this log are missing", log.length),
    };
    let words = format!("{words}, which the manifest names; `aggio fsck` tells more");
    damaged_at(&dir.path_of(&log_name(log.id)), words)
}

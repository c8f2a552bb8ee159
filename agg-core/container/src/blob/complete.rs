//! Checks that the logs of a manifest exist with at least the length that it records: missing bytes
//! are damage, never zeros.

use super::damaged;
use super::dir::{Dir, log_name};
use super::examine::Examined;
use super::index::{HEADER, Index, u32_at};
use super::manifest::{Manifest, SealedLog};
use aggio_base::{Error, Result};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

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
    let path = dir.path_of(&log_name(log.id)).display().to_string();
    damaged(format!("{words}, which the manifest names; `aggio fsck` tells more")).with_path(&path)
}

/// Logs that the indexes of any manifest cover and that are missing from `logs` or shorter there.
/// Without a manifest, nothing else shows which logs were lost.
pub(crate) fn lost_by_indexes(dir: &Dir, logs: &[Examined]) -> Result<Vec<SealedLog>> {
    let mut reach: BTreeMap<u64, u64> = BTreeMap::new();
    for name in dir.names()?.iter().filter(|name| name.starts_with("index.")) {
        let Ok(file) = dir.part(name, false) else { continue };
        let mut header = [0; HEADER];
        if file.read_exact_at(&mut header, 0).is_err() {
            continue;
        }
        let crc = u32_at(&header, HEADER - 4);
        let any = |_| Some(super::frame::FILE_END);
        let Ok(index) = Index::open(file, dir.path_of(name), crc, any) else { continue };
        // A damaged block gives no information about the logs; the other blocks still count.
        let _ = index.all(&mut |run| {
            let end = run.place_of(run.count - 1) + run.length;
            let known = reach.entry(index.logs[run.log as usize]).or_default();
            *known = end.max(*known);
        });
    }
    let holds = |id: u64, length: u64| logs.iter().any(|log| log.id == id && log.end >= length);
    let lost = reach.into_iter().filter(|(id, length)| !holds(*id, *length));
    Ok(lost.map(|(id, length)| SealedLog { id, length, frames: 0, crc: 0 }).collect())
}

//! Whether the logs that a manifest names are there, with all the bytes that they had when it was
//! written: what is missing of them is damage, never zeros.

use super::damaged;
use super::dir::{Dir, log_name};
use super::examine::Examined;
use super::index::{HEADER, Index, u32_at};
use super::manifest::{Manifest, SealedLog};
use aggio_base::{Error, Result};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

/// Refuses a container of which the sealed logs are not there as a whole; `length_of` tells the
/// bytes that a log seems to have, `None` if there is no such log.
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
        // What a directory tells may be old where files are shared between hosts; an open file
        // tells the truth.
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

/// The error for a sealed log of which only so many bytes are there; `None` if there is no log.
fn lacking(dir: &Dir, log: &SealedLog, there: Option<u64>) -> Error {
    let words = match there {
        None => format!("this log of {} bytes is missing", log.length),
        Some(there) => format!("bytes {there}..{} of this log are missing", log.length),
    };
    let path = dir.path_of(&log_name(log.id)).display().to_string();
    damaged(format!("{words}, which the manifest names; `aggio fsck` tells more")).with_path(&path)
}

/// What indexes, whatever manifest named them, tell of logs that are not among these, or end
/// before: all that is known where there is no manifest any more.
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
        // Of a block that is damaged nothing is known; the others still tell.
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

//! Searches a log for intact frames behind a place where none begins. A writer appends, so a crash
//! tears only the end of its log; frames behind that place mean that the log is damaged.

use crate::directory::holes;
use crate::errors::failed;
use crate::format::{Frame, MAGIC};
use crate::log::scan::{Scan, Step};
use aggio_base::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// All intact frames behind the place where the walk stopped.
pub(crate) fn all(file: &File, path: &Path, scan: &mut Scan<'_>) -> Result<Vec<Frame>> {
    let mut found = Vec::new();
    let mut place = scan.place() + 1;
    while let Some(next) = magic_from(file, path, place, scan.length())? {
        scan.seek(next);
        place = next + 1;
        while let Step::Frame(frame) = scan.step()? {
            place = scan.place();
            found.push(frame);
        }
    }
    Ok(found)
}

/// The place of the first intact frame behind the place where the walk stopped, which may go on
/// elsewhere then.
pub(crate) fn first(file: &File, path: &Path, scan: &mut Scan<'_>) -> Result<Option<u64>> {
    if scan.is_unfinished()? {
        // The frame that begins there reaches beyond the end.
        return Ok(None);
    }
    let mut place = scan.place() + 1;
    while let Some(next) = magic_from(file, path, place, scan.length())? {
        scan.seek(next);
        if let Step::Frame(frame) = scan.step()? {
            return Ok(Some(frame.place));
        }
        place = next + 1;
    }
    Ok(None)
}

/// The next place, from `place` on, where a frame may begin.
fn magic_from(file: &File, path: &Path, mut place: u64, end: u64) -> Result<Option<u64>> {
    let mut buffer = vec![0; CHUNK.min(end.saturating_sub(place) as usize)];
    while place < end {
        // The magic number has no zeros, so its first byte is in no hole.
        match holes::next_data(file, path, place)? {
            Some(data) if data < end => place = data.max(place),
            _ => break,
        }
        let n = buffer.len().min((end - place) as usize);
        file.read_exact_at(&mut buffer[..n], place)
            .map_err(|error| failed("pread", &error, path))?;
        if let Some(at) = buffer[..n].windows(MAGIC.len()).position(|four| four == MAGIC) {
            return Ok(Some(place + at as u64));
        }
        if n < buffer.len() || n < MAGIC.len() {
            break;
        }
        place += (n - (MAGIC.len() - 1)) as u64;
    }
    Ok(None)
}

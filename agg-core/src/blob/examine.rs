//! Looking at every frame of a log, also behind damaged ones.

use super::check::{Findings, Severity};
use super::dir::{Dir, log_name};
use super::failed;
use super::frame::{Frame, MAGIC, NO_DATA_CRC};
use super::manifest::SealedLog;
use super::scan::{Scan, Step};
use super::summary;
use crate::{Extent, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// What a log has.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) id: u64,
    /// Behind the last frame that a reader finds.
    pub(crate) end: u64,
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Intact frames behind damaged ones.
    pub(crate) behind: Vec<Frame>,
}

/// Looks at the log with this id.
pub(crate) fn examine(
    dir: &Dir,
    id: u64,
    sealed: Option<SealedLog>,
    data: bool,
    live: bool,
    findings: &mut Findings,
) -> Result<Examined> {
    let name = log_name(id);
    let path = dir.path_of(&name);
    let file = match dir.part(&name, false) {
        Ok(file) => file,
        Err(error) if error.class() == crate::ErrorClass::Access => return Err(error),
        Err(error) => {
            findings.add(Severity::Damaged, &name, None, error.to_string());
            return Ok(Examined { id, end: 0, length: 0, behind: Vec::new() });
        }
    };
    findings.logs += 1;
    let mut scan = Scan::new(&file, &path, id, 0)?;
    let mut log = Examined { id, end: 0, length: scan.length(), behind: Vec::new() };
    let (mut frames, mut crc) = (0_u64, 0);
    let broken = loop {
        match scan.step()? {
            Step::Frame(frame) => {
                (frames, log.end) = (frames + 1, scan.place());
                crc = crc32c::crc32c_append(crc, &frame.head_crc.to_le_bytes());
                if data {
                    check_data(&file, &path, &name, &frame, findings)?;
                }
            }
            Step::End => break None,
            Step::Broken(error) => break Some(error),
        }
    };
    (findings.frames, findings.bytes) = (findings.frames + frames, findings.bytes + log.end);
    if let Some(error) = broken {
        log.behind = search(&file, &path, &mut scan)?;
        let lost = sealed.is_some_and(|sealed| log.end < sealed.length);
        let place = Some(log.end);
        if log.behind.is_empty() && !lost {
            let severity = if live { Severity::Note } else { Severity::Repairable };
            findings.add(severity, &name, place, format!("the last frame is torn: {error}"));
        } else {
            let words = format!("{error}; {} intact frames are behind it", log.behind.len());
            findings.add(Severity::Damaged, &name, place, words);
        }
    }
    compare(sealed, &log, frames, crc, live, findings);
    if log.end == log.length
        && let Some(told) = summary::find(&file, &path, (id, 0), log.length)?
        && (told.frames, told.crc) != (frames, crc)
    {
        let words = "its summary tells of other frames";
        findings.add(Severity::Damaged, &name, Some(log.end), words);
    }
    Ok(log)
}

/// Compares what was found with what the manifest says.
fn compare(
    sealed: Option<SealedLog>,
    log: &Examined,
    frames: u64,
    crc: u32,
    live: bool,
    findings: &mut Findings,
) {
    let name = log_name(log.id);
    let same = sealed.is_some_and(|sealed| sealed.length == log.length);
    match sealed {
        Some(sealed) if log.length < sealed.length => {
            let words = format!("it has {} bytes, and had {}", log.length, sealed.length);
            findings.add(Severity::Damaged, &name, Some(log.length), words);
        }
        Some(sealed)
            if same && log.end == log.length && (frames, crc) != (sealed.frames, sealed.crc) =>
        {
            findings.add(
                Severity::Damaged,
                &name,
                None,
                "it has other frames than when it was sealed",
            );
        }
        _ if same && log.end == log.length => {}
        _ if live => findings.add(Severity::Note, &name, None, "it is being written"),
        _ if log.behind.is_empty() => {
            findings.add(
                Severity::Repairable,
                &name,
                None,
                "it was not sealed; its writer was stopped",
            );
        }
        _ => {}
    }
}

/// Compares a frame's data with its checksum.
fn check_data(
    file: &File,
    path: &Path,
    name: &str,
    frame: &Frame,
    findings: &mut Findings,
) -> Result<()> {
    if frame.flags & NO_DATA_CRC != 0 || frame.data_len == 0 {
        return Ok(());
    }
    let start = frame.place + frame.head_len();
    if sum(file, path, start, frame.data_len)? == frame.data_crc {
        return Ok(());
    }
    let first = frame
        .strips
        .first()
        .map_or(Extent::default(), |strip| Extent::new(strip.start, strip.length));
    let words = format!(
        "the checksum of {} bytes of data is wrong; the first are bytes {first} of the file",
        frame.data_len
    );
    findings.add(Severity::Damaged, name, Some(start), words);
    Ok(())
}

/// The checksum of bytes of a file.
pub(crate) fn sum(file: &File, path: &Path, start: u64, len: u64) -> Result<u32> {
    let mut buffer = vec![0; CHUNK.min(len as usize)];
    let (mut crc, mut done) = (0, 0);
    while done < len {
        let n = buffer.len().min((len - done) as usize);
        file.read_exact_at(&mut buffer[..n], start + done)
            .map_err(|error| failed("pread", &error, path))?;
        crc = crc32c::crc32c_append(crc, &buffer[..n]);
        done += n as u64;
    }
    Ok(crc)
}

/// The intact frames behind the place where the walk stopped.
fn search(file: &File, path: &Path, scan: &mut Scan<'_>) -> Result<Vec<Frame>> {
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

/// The next place, from `place` on, where a frame may begin.
fn magic_from(file: &File, path: &Path, mut place: u64, end: u64) -> Result<Option<u64>> {
    let mut buffer = vec![0; CHUNK.min(end.saturating_sub(place) as usize)];
    while place < end {
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

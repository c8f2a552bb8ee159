//! Looking at every frame of a log, also behind damaged ones.

use crate::directory::{Dir, holes, log_name};
use crate::format::{Frame, NO_DATA_CRC, SealedLog};
use crate::log::{Scan, Step, search, summary, tail};
use crate::repair::findings::{Findings, Severity};
use aggio_base::{Extent, Result};
use std::fs::File;
use std::path::Path;

/// The state of a log.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) id: u64,
    /// Behind the last frame that a reader finds.
    pub(crate) end: u64,
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Intact frames behind damaged ones.
    pub(crate) behind: Vec<Frame>,
    /// Whether the frames that it had when it was sealed are there, as they were.
    pub(crate) whole: bool,
    /// Whether the bytes behind the last frame cannot come from a killed writer: a changed frame,
    /// or one of another log or place.
    pub(crate) foreign: bool,
}

impl Examined {
    /// Whether nothing is missing except a torn end that a crash may leave.
    pub(crate) fn is_sound(&self) -> bool {
        self.whole && self.behind.is_empty() && !self.foreign
    }

    /// The state of a log that cannot be read at all.
    fn unreadable(id: u64) -> Self {
        Self { id, end: 0, length: 0, behind: Vec::new(), whole: false, foreign: false }
    }
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
        Err(error) if error.class() == aggio_base::ErrorClass::Access => return Err(error),
        Err(error) => {
            findings.add(Severity::Damaged, &name, None, error.to_string());
            return Ok(Examined::unreadable(id));
        }
    };
    findings.logs += 1;
    let mut scan = Scan::new(&file, &path, id, 0)?;
    let sealed_length = sealed.map_or(0, |sealed| sealed.length);
    let whole = sealed_length == 0;
    let mut log = Examined { length: scan.length(), whole, ..Examined::unreadable(id) };
    let (mut frames, mut crc) = (0_u64, 0);
    let broken = loop {
        match scan.step()? {
            Step::Frame(frame) => {
                (frames, log.end) = (frames + 1, scan.place());
                crc = aggio_base::checksum::crc32c_append(crc, &frame.head_crc.to_le_bytes());
                if let Some(told) = sealed.filter(|told| told.length == log.end) {
                    log.whole = told.is_as_sealed(frames, crc);
                }
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
        // Behind the sealed part, only frames are acknowledged.
        let is_torn = live || sealed_length > 0 || tail::end_of(&file, &path, &scan)?.is_some();
        log.foreign = !is_torn || scan.is_foreign()?;
        log.behind = search::all(&file, &path, &mut scan)?;
        let lost = log.end < sealed_length;
        let place = Some(log.end);
        if log.behind.is_empty() && !log.foreign && !lost {
            let severity = if live { Severity::Note } else { Severity::Repairable };
            findings.add(severity, &name, place, format!("the last frame is torn: {error}"));
        } else {
            let words = format!("{error}; {} intact frames are behind it", log.behind.len());
            findings.add(Severity::Damaged, &name, place, words);
        }
    }
    compare(sealed, &log, live, findings);
    if log.end == log.length
        && let Some(told) = summary::find(&file, &path, (id, 0), log.length)?
        && (told.frames, told.crc) != (frames, crc)
    {
        let words = "its summary tells of other frames";
        findings.add(Severity::Damaged, &name, Some(log.end), words);
    }
    Ok(log)
}

/// Compares a log with its entry in the manifest.
fn compare(sealed: Option<SealedLog>, log: &Examined, live: bool, findings: &mut Findings) {
    let name = log_name(log.id);
    let same = sealed.is_some_and(|sealed| sealed.length == log.length);
    match sealed {
        Some(sealed) if log.length < sealed.length => {
            let words = format!("it has {} bytes, and had {}", log.length, sealed.length);
            findings.add(Severity::Damaged, &name, Some(log.length), words);
        }
        Some(sealed) if log.end >= sealed.length && !log.whole => {
            let words = "it has other frames than when it was sealed";
            findings.add(Severity::Damaged, &name, None, words);
        }
        _ if same && log.end == log.length => {}
        _ if live => findings.add(Severity::Note, &name, None, "it is being written"),
        _ if log.is_sound() => {
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
    if holes::sum(file, path, start, frame.data_len)? == frame.data_crc {
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

//! Whether the bytes behind the last intact frame of a log are the unfinished frame of a killed
//! writer, which was never acknowledged. Anything else is damage.

use crate::directory::{Bytes, holes};
use crate::errors::failed;
use crate::format::{Frame, HEADER, Lengths, MAGIC, RUN, u32_at};
use crate::log::scan::Scan;
use aggio_base::Result;
use aggio_base::checksum::{crc32c, crc32c_append, crc32c_combine};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: u64 = 1 << 20;

/// Bytes of a log behind its last intact frame, or a copy of them.
pub(crate) struct Tail<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    /// Where they begin in the file, and how many they are.
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The log, and where they begin in it.
    pub(crate) log: u64,
    pub(crate) place: u64,
}

/// The kind of an end that was never acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Torn {
    /// The beginning of a frame.
    Frame,
    /// Zeros: room that the file got when the system crashed, and that nobody filled.
    Room,
}

/// The kind of the bytes behind the place where the walk stopped; `None` for bytes that no killed
/// writer leaves.
pub(crate) fn end_of(file: &File, path: &Path, stopped: &Scan<'_>) -> Result<Option<Torn>> {
    let (place, log) = (stopped.place(), stopped.log());
    let len = stopped.length() - place;
    Tail { file, path, start: place, len, log, place }.kind()
}

impl Tail<'_> {
    /// Their kind; `None` for bytes that no killed writer leaves, such as a changed frame.
    pub(crate) fn kind(&self) -> Result<Option<Torn>> {
        let mut head = [0; HEADER];
        let have = self.len.min(HEADER as u64) as usize;
        self.read(&mut head[..have], 0)?;
        // A writer appends the header before, or together with, the rest of the frame.
        if head.iter().all(|byte| *byte == 0) {
            return Ok(self.is_zeros()?.then_some(Torn::Room));
        }
        let is_torn = self.begins_own(&head[..have]) && self.is_unfinished(&head)?;
        Ok(is_torn.then_some(Torn::Frame))
    }

    /// Whether a header of a frame of this log and this place begins so.
    fn begins_own(&self, head: &[u8]) -> bool {
        let mut own = [0; HEADER];
        own[..4].copy_from_slice(&MAGIC);
        own[6..8].copy_from_slice(&(HEADER as u16).to_le_bytes());
        own[40..48].copy_from_slice(&self.log.to_le_bytes());
        own[48..56].copy_from_slice(&self.place.to_le_bytes());
        let told = [0..4, 6..8, 40..56].into_iter().flatten();
        told.take_while(|at| *at < head.len()).all(|at| head[at] == own[at])
    }

    /// Whether the frame that begins with `head` ends behind them.
    fn is_unfinished(&self, head: &[u8; HEADER]) -> Result<bool> {
        if self.len < HEADER as u64 {
            return Ok(true);
        }
        let Ok(lengths) = Lengths::of(head) else { return Ok(false) };
        if lengths.head > self.len {
            return Ok(!self.has_fewer_runs(head, lengths.data)?);
        }
        let mut whole = vec![0; lengths.head as usize];
        self.read(&mut whole, 0)?;
        Ok(Frame::decode(&whole).is_ok_and(|frame| frame.len() > self.len))
    }

    /// Whether the checksum of the header fits with some other number of runs, after which the data
    /// ends here as well: then that number was changed, and the frame is a whole one.
    fn has_fewer_runs(&self, head: &[u8; HEADER], data: u64) -> Result<bool> {
        let wanted = u32_at(head, 60);
        let Some(room) = self.len.checked_sub(HEADER as u64 + data) else { return Ok(false) };
        let (mut runs, mut crc, mut bytes) = (0_u32, 0, Vec::new());
        loop {
            let own = checksum_with(head, runs);
            if crc32c_combine(own, crc, runs as usize * RUN) == wanted {
                return Ok(true);
            }
            let done = u64::from(runs) * RUN as u64;
            if done + RUN as u64 > room || runs == u32::MAX {
                return Ok(false);
            }
            let at = (done % CHUNK) as usize;
            if at == 0 {
                bytes.resize(CHUNK.min(room - done) as usize, 0);
                self.read(&mut bytes, HEADER as u64 + done)?;
            }
            crc = crc32c_append(crc, &bytes[at..at + RUN]);
            runs += 1;
        }
    }

    fn is_zeros(&self) -> Result<bool> {
        let mut are = true;
        holes::each(self.file, self.path, (self.start, self.len), &mut |bytes| {
            if let Bytes::Stored(_, bytes) = bytes {
                are &= bytes.iter().all(|byte| *byte == 0);
            }
            Ok(())
        })?;
        Ok(are)
    }

    fn read(&self, bytes: &mut [u8], from: u64) -> Result<()> {
        let read = self.file.read_exact_at(bytes, self.start + from);
        read.map_err(|error| failed("pread", &error, self.path))
    }
}

/// The checksum of a header with so many runs, and zeros in its own field.
fn checksum_with(head: &[u8; HEADER], runs: u32) -> u32 {
    let mut head = *head;
    head[8..12].copy_from_slice(&runs.to_le_bytes());
    head[60..64].fill(0);
    crc32c(&head)
}

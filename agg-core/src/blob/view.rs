//! What a container holds, as far as it was looked at: the sealed part from its index, the rest from
//! the frames of the logs.

use super::descriptors::Descriptors;
use super::dir::{Dir, log_name};
use super::frame::{HEADER, SHORT};
use super::live::{Events, Live};
use super::manifest::Manifest;
use super::resolve::{Found, Piece, resolve};
use super::run::Run;
use super::scan::{Meaning, Scan, Step, meaning};
use super::{damaged, failed};
use crate::{Extent, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A log as far as it was scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogState {
    pub(crate) id: u64,
    /// Behind the last intact frame.
    pub(crate) scanned: u64,
    /// Number of intact frames.
    pub(crate) frames: u64,
    /// Bytes of the file when it was last looked at.
    pub(crate) length: u64,
}

/// The content of a container.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) manifest: Manifest,
    pub(crate) logs: Vec<LogState>,
    numbers: HashMap<u64, u32>,
    live: Live,
    events: Events,
    /// One past the highest sequence number seen.
    pub(crate) next_seq: u64,
    /// The size, if it is known for the pieces and events so far.
    size: Option<u64>,
}

impl View {
    /// The content of `dir` now.
    pub(crate) fn load(dir: &Dir, files: &Descriptors) -> Result<Self> {
        let manifest = Manifest::load(dir)?;
        let next_seq = manifest.epoch;
        let mut view = Self {
            manifest,
            logs: Vec::new(),
            numbers: HashMap::new(),
            live: Live::default(),
            events: Events::default(),
            next_seq,
            size: Some(0),
        };
        view.scan(dir, files)?;
        Ok(view)
    }

    /// Takes in frames that were appended; says whether there were any.
    pub(crate) fn scan(&mut self, dir: &Dir, files: &Descriptors) -> Result<bool> {
        let mut changed = false;
        for id in dir.logs()? {
            let Some(length) = dir.length_of(&log_name(id))? else { continue };
            let number = self.number_of(id);
            let state = self.logs[number as usize];
            if length != state.length {
                changed |= self.scan_log(dir, files, number, length)?;
            }
        }
        if self.size.is_none() {
            self.size = Some(self.count_size(dir, files)?);
        }
        Ok(changed)
    }

    fn number_of(&mut self, id: u64) -> u32 {
        let new = self.logs.len() as u32;
        let number = *self.numbers.entry(id).or_insert(new);
        if number == new {
            self.logs.push(LogState { id, scanned: 0, frames: 0, length: 0 });
        }
        number
    }

    fn scan_log(&mut self, dir: &Dir, files: &Descriptors, log: u32, length: u64) -> Result<bool> {
        let state = self.logs[log as usize];
        let (file, path) = (files.get(dir, state.id)?, dir.path_of(&log_name(state.id)));
        let mut scan = Scan::new(&file, &path, state.id, state.scanned)?;
        let mut frames = state.frames;
        let sealed = self.manifest.log(state.id).map_or(0, |sealed| sealed.length);
        loop {
            match scan.step()? {
                Step::Frame(frame) => {
                    frames += 1;
                    self.next_seq = self.next_seq.max(frame.last_seq + 1);
                    self.take(meaning(&frame, log));
                }
                Step::End => break,
                // A log that was complete once must be so still; in others a writer may be at work.
                Step::Broken(error) if scan.place() < sealed => return Err(error),
                Step::Broken(_) => break,
            }
        }
        if scan.place() < sealed {
            return Err(damaged(format!(
                "the log ends at byte {}, but had {sealed} bytes when it was complete",
                scan.place()
            ))
            .with_path(&path.display().to_string()));
        }
        let new = LogState { id: state.id, scanned: scan.place(), frames, length };
        self.logs[log as usize] = new;
        Ok(new.scanned != state.scanned)
    }

    fn take(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Nothing => {}
            Meaning::Event(event) => {
                self.events.add(event);
                if event.sets_size {
                    self.size = None;
                }
            }
            Meaning::Runs(runs) => {
                let last = self.events.last_truncate().map_or(0, |event| event.seq);
                for run in runs {
                    if run.seq > last {
                        self.size = self.size.map(|size| size.max(run.span().end()));
                    }
                    self.live.add(run);
                }
            }
        }
    }

    /// The size: that of the last truncation, or the end of what was written behind it later.
    fn count_size(&self, dir: &Dir, files: &Descriptors) -> Result<u64> {
        let Some(last) = self.events.last_truncate() else {
            return Ok(self.live.all().map(|run| run.span().end()).max().unwrap_or(0));
        };
        let mut size = last.extent.offset;
        for run in self.live.all() {
            if run.last_seq > last.seq && run.span().end() > size {
                let first = self.first_after(run, last.seq, dir, files)?;
                let end = run.piece(first).end().max(run.piece(run.count - 1).end());
                size = size.max(end);
            }
        }
        Ok(size)
    }

    /// The first piece of `run` with a number above `seq`; there is one.
    fn first_after(&self, run: &Run, seq: u64, dir: &Dir, files: &Descriptors) -> Result<u64> {
        let (mut low, mut high) = (0, run.count - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let number = match run.seq_of(middle) {
                Some(number) => number,
                None => {
                    let frame = run.place_of(middle) - SHORT as u64;
                    self.seq_at(run.log, frame, dir, files)?
                }
            };
            if number > seq { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }

    /// The sequence number in the header of the frame at `place`.
    fn seq_at(&self, log: u32, place: u64, dir: &Dir, files: &Descriptors) -> Result<u64> {
        let id = self.logs[log as usize].id;
        let path = dir.path_of(&log_name(id));
        let mut header = [0; SHORT];
        files
            .get(dir, id)?
            .read_exact_at(&mut header, place)
            .map_err(|error| failed("pread", &error, &path))?;
        let frame = super::frame::Frame::decode(&header)
            .map_err(|error| error.with_path(&path.display().to_string()))?;
        debug_assert_eq!(frame.head_len() as usize, HEADER + super::frame::RUN);
        Ok(frame.seq)
    }

    /// The size of the logical file.
    pub(crate) fn size(&self) -> u64 {
        self.size.unwrap_or(0)
    }

    /// Whether the manifest tells about all that is there.
    pub(crate) fn is_sealed(&self) -> bool {
        let told = |log: &LogState| {
            self.manifest.log(log.id).is_some_and(|sealed| sealed.length == log.length)
        };
        self.logs.iter().all(told)
    }

    /// Where the bytes of `range` lie.
    pub(crate) fn find(&self, range: Extent, dir: &Dir, files: &Descriptors) -> Result<Vec<Found>> {
        let mut pieces = Vec::new();
        self.live.in_range(range, &mut |run, numbers| collect(run, numbers, range, &mut pieces));
        for event in self.events.all() {
            let extent = event.extent.intersect(range);
            let (low, high) = (event.seq, event.seq);
            pieces.push(Piece { extent, source: None, low, high, frame: 0 });
        }
        resolve(range, pieces, &mut |piece| match piece.source {
            Some((log, _)) => self.seq_at(log, piece.frame, dir, files),
            None => Ok(piece.low),
        })
    }
}

/// Adds the pieces of a run, cut to `range`.
fn collect(run: &Run, numbers: Range<u64>, range: Extent, pieces: &mut Vec<Piece>) {
    for k in numbers {
        let whole = run.piece(k);
        let extent = whole.intersect(range);
        let place = run.place_of(k);
        let skip = extent.offset - whole.offset;
        let (low, high) = match run.seq_of(k) {
            Some(seq) => (seq, seq),
            None => (run.seq + k, run.last_seq - (run.count - 1 - k)),
        };
        let frame = place.wrapping_sub(SHORT as u64);
        pieces.push(Piece { extent, source: Some((run.log, place + skip)), low, high, frame });
    }
}

//! The content of a container, as far as it was read: the sealed part from its index, the rest from
//! the frames of the logs.

use crate::directory::{Dir, liveness, log_name};
use crate::errors::{at, damaged_at, failed};
use crate::format::{Frame, Kind, Manifest, Run, SHORT};
use crate::index::{Content, Events, Index, Live};
use crate::log::{Meaning, Scan, Step, Told, meaning, search, summary, tail};
use crate::reading::completeness;
use crate::reading::descriptors::Descriptors;
use crate::reading::placement::Placed;
use crate::reading::resolution::{Found, NO_FRAME, Piece, resolve};
use aggio_base::{Extent, Result};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A log as far as it was scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogState {
    pub(crate) id: u64,
    /// Behind the last intact frame.
    pub(crate) scanned: u64,
    /// Number of intact frames.
    pub(crate) frames: u64,
    /// Checksum of the checksums of their headers.
    pub(crate) crc: u32,
    /// Bytes of the file when it was last looked at.
    pub(crate) length: u64,
}

/// The content of a container.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) manifest: Manifest,
    pub(crate) logs: Vec<LogState>,
    numbers: HashMap<u64, u32>,
    index: Option<Index>,
    /// Whether a log has frames that are older than the index says; then it cannot be used.
    stale: bool,
    live: Live,
    events: Events,
    /// Pages that are changed in place, also behind the end of the file.
    homes: Vec<Placed>,
    /// One past the highest sequence number seen.
    pub(crate) next_seq: u64,
    /// The size, if it is known for the pieces and events so far.
    size: Option<u64>,
}

impl View {
    /// The content of `dir` now.
    pub(crate) fn load(dir: &Dir, files: &Descriptors) -> Result<Self> {
        Self::of(Manifest::load(dir)?, dir, files)
    }

    /// The content of `dir` with this manifest.
    pub(crate) fn of(manifest: Manifest, dir: &Dir, files: &Descriptors) -> Result<Self> {
        if let Some(view) = Self::indexed(&manifest, dir, files)? {
            return Ok(view);
        }
        Self::scanned(manifest, dir, files)
    }

    /// The content with the help of the index, `None` if it is of no use.
    fn indexed(manifest: &Manifest, dir: &Dir, files: &Descriptors) -> Result<Option<Self>> {
        let Some(line) = &manifest.index else { return Ok(None) };
        let length_of = |id: u64| manifest.log(id).map(|log| log.length);
        let open = |file| Index::open(file, dir.path_of(&line.name), line.crc, length_of);
        // Without the index, or with a damaged one, the logs still tell everything.
        let Ok(index) = dir.part(&line.name, false).and_then(open) else { return Ok(None) };
        let mut view = Self::empty(manifest.clone());
        for id in &index.logs {
            let number = view.number_of(*id) as usize;
            if let Some(log) = manifest.log(*id) {
                let (length, frames, crc) = (log.length, log.frames, log.crc);
                view.logs[number] = LogState { id: *id, scanned: length, frames, crc, length };
            }
        }
        index.events.iter().for_each(|event| view.events.add(*event));
        (view.index, view.size) = (Some(index), Some(manifest.size));
        view.scan(dir, files)?;
        Ok((!view.stale).then_some(view))
    }

    /// Whether the index, if one is used, records where the frames of all pieces begin.
    pub(crate) fn knows_frames(&self) -> bool {
        self.index.as_ref().is_none_or(|index| index.frames)
    }

    /// The content as all logs tell it.
    pub(crate) fn scanned(manifest: Manifest, dir: &Dir, files: &Descriptors) -> Result<Self> {
        let mut view = Self::empty(manifest);
        view.scan(dir, files)?;
        Ok(view)
    }

    fn empty(manifest: Manifest) -> Self {
        let next_seq = manifest.epoch;
        Self {
            manifest,
            logs: Vec::new(),
            numbers: HashMap::new(),
            index: None,
            stale: false,
            live: Live::default(),
            events: Events::default(),
            homes: Vec::new(),
            next_seq,
            size: Some(0),
        }
    }

    /// Whether it has to be loaded again: appended frames are older than the index.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Takes in frames that were appended; says whether there were any.
    pub(crate) fn scan(&mut self, dir: &Dir, files: &Descriptors) -> Result<bool> {
        let mut changed = false;
        let mut lengths = Vec::new();
        for id in dir.logs()? {
            lengths.extend(dir.length_of(&log_name(id))?.map(|length| (id, length)));
        }
        files.forget_drained(dir);
        completeness::demand(&self.manifest, dir, |id| {
            let at = lengths.binary_search_by_key(&id, |log| log.0).ok()?;
            Some(lengths[at].1)
        })?;
        for (id, length) in lengths {
            let number = self.number_of(id);
            let state = self.logs[number as usize];
            // An unfinished frame may have been taken back, and another one that ends at the same
            // byte.
            if length != state.length || state.scanned < length {
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
            self.logs.push(LogState { id, scanned: 0, frames: 0, crc: 0, length: 0 });
        }
        number
    }

    fn scan_log(&mut self, dir: &Dir, files: &Descriptors, log: u32, length: u64) -> Result<bool> {
        let state = self.logs[log as usize];
        let (file, path) = (files.get(dir, state.id)?, dir.path_of(&log_name(state.id)));
        let unseen = state.scanned == 0 && self.manifest.log(state.id).is_none();
        if unseen && let Some(told) = summary::find(&file, &path, (state.id, log), length)? {
            self.believe(log, length, told);
            return Ok(true);
        }
        let mut scan = Scan::new(&file, &path, state.id, state.scanned)?;
        let (mut frames, mut crc) = (state.frames, state.crc);
        let oldest = self.oldest();
        let told = self.manifest.log(state.id).copied();
        let sealed = told.map_or(0, |sealed| sealed.length);
        loop {
            match scan.step()? {
                Step::Frame(frame) => {
                    frames += 1;
                    crc = aggio_base::checksum::crc32c_append(crc, &frame.head_crc.to_le_bytes());
                    if let Some(told) =
                        told.filter(|_| frame.place < sealed && scan.place() >= sealed)
                        && (scan.place() > sealed || !told.is_as_sealed(frames, crc))
                    {
                        let words = "it has other frames than when it was sealed";
                        return Err(damaged_at(&path, words));
                    }
                    self.stale |= frame.seq < oldest && frame.kind.is_change();
                    self.next_seq = self.next_seq.max(frame.last_seq + 1);
                    // The processes that had sealed pages mapped have ended.
                    if frame.kind == Kind::Mapped && frame.place >= sealed {
                        self.homes.push(pages_of(&frame));
                    }
                    self.take(meaning(&frame, log));
                }
                Step::End => break,
                // A log that was complete once must be so still; in others a writer may be at work.
                Step::Broken(error) if scan.place() < sealed => return Err(error),
                Step::Broken(error) => {
                    let looked = (state.length, state.scanned) == (length, scan.place());
                    if looked || !is_damaged(&file, &path, &scan, told.is_some())? {
                        break;
                    }
                    return Err(error);
                }
            }
        }
        if scan.place() < sealed {
            let end = scan.place();
            let words = format!("the log ends at byte {end}, but had {sealed} bytes when complete");
            return Err(damaged_at(&path, words));
        }
        let new = LogState { id: state.id, scanned: scan.place(), frames, crc, length };
        self.logs[log as usize] = new;
        Ok(new.scanned != state.scanned)
    }

    /// Frames that were appended may not be older than this.
    fn oldest(&self) -> u64 {
        if self.index.is_some() { self.manifest.epoch } else { 0 }
    }

    /// Takes in a whole log from its summary; none of its frames was read before.
    fn believe(&mut self, log: u32, length: u64, told: Told) {
        let oldest = self.oldest();
        self.stale |= told.runs.iter().any(|run| run.seq < oldest);
        self.next_seq = self.next_seq.max(told.last_seq.saturating_add(1));
        self.take(Meaning::Runs(told.runs));
        let id = self.logs[log as usize].id;
        let (frames, crc) = (told.frames, told.crc);
        self.logs[log as usize] = LogState { id, scanned: length, frames, crc, length };
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
            Meaning::Elsewhere(id, run) => {
                let log = self.number_of(id);
                self.take(Meaning::Runs(vec![Run { log, ..run }]));
            }
            Meaning::Runs(runs) => {
                let last = self.events.last_truncate().map_or(0, |event| event.seq);
                for run in runs {
                    if run.seq > last {
                        self.size = self.size.map(|size| size.max(run.span().end()));
                    } else if run.last_seq > last {
                        self.size = None;
                    }
                    self.live.add(run);
                }
            }
        }
    }

    /// The size: that of the last truncation, or the end of later writes behind it.
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
        let frame = Frame::decode(&header).map_err(|error| at(error, &path))?;
        if (frame.log, frame.place) != (id, place) {
            return Err(damaged_at(&path, format!("no frame begins at byte {place}")));
        }
        Ok(frame.seq)
    }

    /// The size of the logical file.
    pub(crate) fn size(&self) -> u64 {
        self.size.unwrap_or(0)
    }

    /// Whether the manifest covers all bytes of all logs.
    pub(crate) fn is_sealed(&self) -> bool {
        let told = |log: &LogState| {
            self.manifest.log(log.id).is_some_and(|sealed| sealed.length == log.length)
        };
        self.logs.iter().all(told)
    }

    /// Calls `take` with every run that was scanned, its log's id, and whether that log is sealed.
    pub(crate) fn all_runs(&self, take: &mut impl FnMut(&Run, u64, bool)) {
        for run in self.live.all() {
            let log = &self.logs[run.log as usize];
            let sealed = self.manifest.log(log.id).is_some_and(|told| told.length == log.scanned);
            take(run, log.id, sealed);
        }
    }

    /// Everything, for a new index.
    pub(crate) fn content(&self) -> Result<Content> {
        let ids = self.logs.iter().map(|log| log.id).collect();
        let mut content = Content::new(ids, self.events.all().to_vec());
        if let Some(index) = &self.index {
            index.all(&mut |run| content.add(run))?;
        }
        self.live.all().for_each(|run| content.add(run));
        Ok(content)
    }

    /// The pages with bytes of `range` that are changed in place.
    pub(crate) fn homes(&self, range: Extent) -> impl Iterator<Item = Placed> {
        self.homes.iter().filter_map(move |home| home.part(range))
    }

    /// The first byte of `range` that some piece has, which may have become a hole since; `None` if
    /// no piece has any.
    pub(crate) fn first_piece(&self, range: Extent) -> Result<Option<u64>> {
        let mut first = None::<u64>;
        let mut take = |run: &Run, numbers: Range<u64>| {
            // The pieces of a run ascend or descend in the file.
            let start = |k| run.piece(k).intersect(range).offset;
            let lowest = start(numbers.start).min(start(numbers.end - 1));
            first = Some(first.map_or(lowest, |first| first.min(lowest)));
        };
        if let Some(index) = &self.index {
            index.in_range(range, &mut take)?;
        }
        self.live.in_range(range, &mut take);
        Ok(first)
    }

    /// Where the bytes of `range` lie.
    pub(crate) fn find(&self, range: Extent, dir: &Dir, files: &Descriptors) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        self.find_with(range, (dir, files), &mut Vec::new(), &mut found)?;
        Ok(found)
    }

    /// As [`find`](View::find), in memory of the caller's: both lists are emptied first, and
    /// `found` has the answer.
    pub(crate) fn find_with(
        &self,
        range: Extent,
        (dir, files): (&Dir, &Descriptors),
        pieces: &mut Vec<Piece>,
        found: &mut Vec<Found>,
    ) -> Result<()> {
        pieces.clear();
        found.clear();
        let mut take = |run: &Run, numbers| collect(run, numbers, range, pieces);
        if let Some(index) = &self.index {
            index.in_range(range, &mut take)?;
        }
        self.live.in_range(range, &mut take);
        for event in self.events.all() {
            let extent = event.extent.intersect(range);
            let (low, high) = (event.seq, event.seq);
            if !extent.is_empty() {
                pieces.push(Piece { extent, source: None, low, high, frame: NO_FRAME });
            }
        }
        let mut exact = |piece: &Piece| match piece.source {
            Some((log, _)) => self.seq_at(log, piece.frame, dir, files),
            None => Ok(piece.low),
        };
        resolve(range, pieces, &mut exact, found)
    }
}

/// Whether the log is damaged where the walk stopped: there are intact frames behind that place, or
/// the writer has ended and left bytes that no killed writer leaves.
fn is_damaged(file: &File, path: &Path, stopped: &Scan<'_>, was_complete: bool) -> Result<bool> {
    let mut scan = Scan::new(file, path, stopped.log(), stopped.place())?;
    let may_be_torn = !scan.is_foreign()? && search::first(file, path, &mut scan)?.is_none();
    // A living writer may show a frame in any state; behind the sealed part of a log, any end is
    // accepted.
    let is_open = was_complete || !liveness::is_abandoned(file);
    if may_be_torn && (is_open || tail::end_of(file, path, stopped)?.is_some()) {
        return Ok(false);
    }
    // A frame that could not be stored may have been taken back meanwhile, and others have come to
    // its place.
    let mut again = Scan::new(file, path, stopped.log(), stopped.place())?;
    Ok(matches!(again.step()?, Step::Broken(_)) && !again.is_unfinished()?)
}

/// Where the pages of a frame of the kind `Mapped` lie.
fn pages_of(frame: &Frame) -> Placed {
    let len = frame.data_len - u64::from(frame.skip);
    let logical = Extent::new(frame.strips[0].start, len);
    Placed { logical, log: frame.log, place: frame.data_place() }
}

/// Adds the pieces of a run, cut to `range`.
fn collect(run: &Run, numbers: Range<u64>, range: Extent, pieces: &mut Vec<Piece>) {
    for k in numbers {
        let whole = run.piece(k);
        let extent = whole.intersect(range);
        if extent.is_empty() {
            continue;
        }
        let place = run.place_of(k);
        let skip = extent.offset - whole.offset;
        let (low, high) = match run.seq_of(k) {
            Some(seq) => (seq, seq),
            None => (run.seq + k, run.last_seq - (run.count - 1 - k)),
        };
        let frame = run.frame_of(k).unwrap_or(NO_FRAME);
        pieces.push(Piece { extent, source: Some((run.log, place + skip)), low, high, frame });
    }
}

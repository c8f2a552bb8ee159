//! Walks over the frames of a log, from any frame on to the first that is not intact.

use crate::errors::{damaged, damaged_at, failed};
use crate::format::{Event, Frame, HEADER, Kind, Lengths, MAGIC, Run, SHORT, single};
use aggio_base::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time where frames are short.
const CHUNK: usize = 4096;

/// A walk over the frames of one log.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    file: &'a File,
    path: &'a Path,
    log: u64,
    place: u64,
    length: u64,
    chunk: Vec<u8>,
    chunk_place: u64,
    /// Bytes to read at a time: where frames are long, more than a header is wasted.
    ahead: usize,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Step {
    /// An intact frame.
    Frame(Frame),
    /// The end of the log, exactly behind a frame.
    End,
    /// No intact frame begins here: it is not complete yet, was torn by a crash, or is damaged.
    Broken(Error),
}

impl<'a> Scan<'a> {
    /// A walk over the log with the id `log` from `place` on, as long as the file is now.
    pub(crate) fn new(file: &'a File, path: &'a Path, log: u64, place: u64) -> Result<Self> {
        let facts = file.metadata().map_err(|error| failed("fstat", &error, path))?;
        let (chunk, chunk_place) = (Vec::new(), 0);
        let length = facts.len();
        Ok(Self { file, path, log, place, length, chunk, chunk_place, ahead: CHUNK })
    }

    /// The id of the log.
    pub(crate) fn log(&self) -> u64 {
        self.log
    }

    /// Where the next frame begins.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// Bytes of the log.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Goes on at another place.
    pub(crate) fn seek(&mut self, place: u64) {
        self.place = place;
    }

    /// The next frame.
    ///
    /// # Errors
    ///
    /// If the file cannot be read; frames that are not intact are no error.
    pub(crate) fn step(&mut self) -> Result<Step> {
        if self.place == self.length {
            return Ok(Step::End);
        }
        let broken = |error: Error, place: u64, path: &Path| {
            let words = format!("byte {place} of the log: {}", detail(&error));
            Ok(Step::Broken(damaged_at(path, words)))
        };
        match self.frame()? {
            Ok(frame) => {
                self.place += frame.len();
                self.ahead = if frame.len() > CHUNK as u64 { SHORT } else { CHUNK };
                Ok(Step::Frame(frame))
            }
            Err(error) => broken(error, self.place, self.path),
        }
    }

    fn frame(&mut self) -> Result<Result<Frame>> {
        let left = self.length.saturating_sub(self.place);
        if left < HEADER as u64 {
            return Ok(Err(damaged("the frame's header is cut off")));
        }
        let header: [u8; HEADER] = match self.bytes(HEADER)?.first_chunk() {
            Some(header) => *header,
            None => return Ok(Err(damaged("the frame's header is cut off"))),
        };
        let lengths = match Lengths::of(&header) {
            Ok(lengths) => lengths,
            Err(error) => return Ok(Err(error)),
        };
        // Nothing is allocated or read before the bytes are known to be there.
        if lengths.head.checked_add(lengths.data).is_none_or(|whole| whole > left) {
            return Ok(Err(damaged("the frame is cut off")));
        }
        let (log, place) = (self.log, self.place);
        let frame = Frame::decode(self.bytes(lengths.head as usize)?);
        Ok(frame.and_then(|frame| {
            let own = frame.log == log && frame.place == place;
            own.then_some(frame).ok_or_else(|| damaged("the frame belongs to another place"))
        }))
    }

    /// Whether a sound header begins here, of a frame that ends behind the log's end: it is being
    /// written, or was torn.
    pub(crate) fn is_unfinished(&mut self) -> Result<bool> {
        let (left, log, place) = (self.length.saturating_sub(self.place), self.log, self.place);
        let frame = self.header_here()?.filter(|frame| frame.len() > left);
        Ok(frame.is_some_and(|frame| (frame.log, frame.place) == (log, place)))
    }

    /// Whether bytes begin here that no crash of a writer leaves: an intact frame of another log or
    /// of another place, or neither the beginning of a frame nor room that was never filled.
    pub(crate) fn is_foreign(&mut self) -> Result<bool> {
        let (log, place) = (self.log, self.place);
        let begins = self.bytes(MAGIC.len())?;
        if !MAGIC.starts_with(begins) && begins.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        let frame = self.header_here()?;
        Ok(frame.is_some_and(|frame| (frame.log, frame.place) != (log, place)))
    }

    /// The header that begins here, if it is intact, even if it belongs to another log or place or
    /// its data ends behind the file.
    fn header_here(&mut self) -> Result<Option<Frame>> {
        let left = self.length.saturating_sub(self.place);
        if left < HEADER as u64 {
            return Ok(None);
        }
        let header = self.bytes(HEADER)?.first_chunk::<HEADER>().copied();
        let lengths = header.and_then(|header| Lengths::of(&header).ok());
        let Some(lengths) = lengths.filter(|lengths| lengths.head <= left) else { return Ok(None) };
        Ok(Frame::decode(self.bytes(lengths.head as usize)?).ok())
    }

    /// The `len` bytes at the current place; fewer if the file became shorter.
    fn bytes(&mut self, len: usize) -> Result<&[u8]> {
        let have = self.place.checked_sub(self.chunk_place).map_or(0, |skip| {
            self.chunk.len().saturating_sub(usize::try_from(skip).unwrap_or(usize::MAX))
        });
        if have < len {
            let left = usize::try_from(self.length - self.place).unwrap_or(usize::MAX);
            self.chunk.resize(len.max(self.ahead).min(left), 0);
            self.chunk_place = self.place;
            let mut filled = 0;
            while filled < self.chunk.len() {
                let place = self.place + filled as u64;
                match self.file.read_at(&mut self.chunk[filled..], place) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(failed("pread", &error, self.path)),
                }
            }
            self.chunk.truncate(filled);
        }
        let skip = (self.place - self.chunk_place) as usize;
        Ok(&self.chunk[skip..(skip + len).min(self.chunk.len())])
    }
}

/// The words of an error without its class, which is always the same here.
pub(crate) fn detail(error: &Error) -> String {
    let words = error.to_string();
    words.split(" (MPI_").next().unwrap_or_default().to_owned()
}

/// The effect of a frame on the file.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// Pieces, in the order in which they were written.
    Runs(Vec<Run>),
    /// A truncation or a hole.
    Event(Event),
    /// Bytes of the log with this id; the run does not tell its number.
    Elsewhere(u64, Run),
    /// Nothing.
    Nothing,
}

/// The meaning of `frame`, which lies in the log with the number `log`.
pub(crate) fn meaning(frame: &Frame, log: u32) -> Meaning {
    match frame.kind {
        Kind::Commit | Kind::Summary => Meaning::Nothing,
        Kind::Truncate => Meaning::Event(Event::truncate(frame.strips[0].start, frame.seq)),
        Kind::Hole => {
            let strip = frame.strips[0];
            let extent = aggio_base::Extent::new(strip.start, strip.length);
            Meaning::Event(Event::hole(extent, frame.seq))
        }
        Kind::Data | Kind::Mapped => Meaning::Runs(runs(frame, log)),
        Kind::Again => Meaning::Elsewhere(frame.strips[1].length, again(frame)),
    }
}

/// The bytes that a frame says to lie elsewhere.
fn again(frame: &Frame) -> Run {
    let (bytes, there) = (frame.strips[0], frame.strips[1]);
    single(bytes.start, bytes.length, 0, there.start, frame.seq)
}

fn runs(frame: &Frame, log: u32) -> Vec<Run> {
    let single = frame.strips.len() == 1 && frame.strips[0].count == 1;
    debug_assert!(!single || frame.head_len() == SHORT as u64);
    let framed = single && frame.kind == Kind::Data;
    let (mut place, mut seq) = (frame.data_place(), frame.seq);
    let mut runs = Vec::with_capacity(frame.strips.len());
    for strip in &frame.strips {
        let many = strip.count > 1;
        runs.push(Run {
            start: strip.start,
            length: strip.length,
            stride: if many { strip.stride } else { 0 },
            count: strip.count,
            log,
            framed,
            head: place - frame.place,
            place,
            place_stride: if many { strip.length } else { 0 },
            seq,
            last_seq: seq + (strip.count - 1),
        });
        place += strip.count * strip.length;
        seq += strip.count;
    }
    runs
}

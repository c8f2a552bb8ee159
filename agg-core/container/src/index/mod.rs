//! The merged index of sealed logs: runs, which are few and decoded when it is opened, and single
//! pieces, which may be many and stay in the file, sorted, in blocks that are read when needed.

mod blocks;
mod content;
pub(crate) mod header;
mod live_runs;
mod runs;
mod spans;
mod superseded_runs;

pub(crate) use content::Content;
pub(crate) use live_runs::{Events, Live};

use crate::errors::{at, damaged};
use crate::format::{Event, FILE_END, Run, decode_runs, u32_at, u64_at};
use crate::index::blocks::Blocks;
use crate::index::header::{EVENT, FENCE, HEADER, Header};
use crate::index::runs::Runs;
use crate::index::spans::Spans;
use aggio_base::{Extent, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// An open index.
#[derive(Debug)]
pub(crate) struct Index {
    /// The ids of the logs, by the numbers that runs use.
    pub(crate) logs: Vec<u64>,
    /// Bytes of each log.
    lengths: Vec<u64>,
    runs: Runs,
    pub(crate) events: Vec<Event>,
    fences: Spans,
    blocks: Blocks,
    /// Whether it records where the frames of all pieces begin; indexes of older versions do not.
    pub(crate) frames: bool,
}

impl Index {
    /// Opens the index with this checksum of its header. `length_of` returns the sealed bytes of a
    /// log, `None` if it is not sealed.
    pub(crate) fn open(
        file: File,
        path: PathBuf,
        header_crc: u32,
        length_of: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self> {
        let name = path.clone();
        Self::read(file, path, header_crc, length_of).map_err(|error| at(error, &name))
    }

    fn read(
        file: File,
        path: PathBuf,
        header_crc: u32,
        length_of: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self> {
        let fail = |error: std::io::Error| crate::errors::failed("pread", &error, &path);
        let mut bytes = [0; HEADER];
        file.read_exact_at(&mut bytes, 0).map_err(fail)?;
        let header = Header::decode(&bytes)?;
        if u32_at(&bytes, HEADER - 4) != header_crc {
            return Err(damaged("it is not the index that the manifest names"));
        }
        let length = file.metadata().map_err(fail)?.len();
        let places = header.places().filter(|places| places[5] == length);
        let [logs, events, runs, fences, singles, _] = places.ok_or_else(|| {
            damaged(format!("the index has {length} bytes, but its header tells of another length"))
        })?;
        let section = |from: u64, to: u64, sum: u32| {
            let mut bytes = vec![0; (to - from) as usize];
            file.read_exact_at(&mut bytes, from).map_err(fail)?;
            let right = aggio_base::checksum::crc32c(&bytes) == sum;
            right.then_some(bytes).ok_or_else(|| {
                damaged(format!("the checksum of bytes {from}..{to} of the index is wrong"))
            })
        };
        let ids = section(logs, events, header.sums[0])?;
        let ids: Vec<u64> = ids.chunks_exact(8).map(|id| u64_at(id, 0)).collect();
        let lengths: Option<Vec<u64>> = ids.iter().map(|id| length_of(*id)).collect();
        let lengths =
            lengths.ok_or_else(|| damaged("the index tells of a log that is not sealed"))?;
        let event_list = decode_events(&section(events, runs, header.sums[1])?)?;
        let run_list = decode_runs(&section(runs, fences, header.sums[2])?, header.runs, &lengths)?;
        let (starts, ends) = decode_fences(&section(fences, singles, header.sums[3])?)?;
        Ok(Self {
            logs: ids,
            lengths,
            runs: Runs::new(run_list),
            events: event_list,
            fences: Spans::new(starts, &ends),
            blocks: Blocks::new(file, path, singles, header.singles),
            frames: header.frames,
        })
    }

    /// Calls `take` with all runs and singles that have bytes in `range`.
    pub(crate) fn in_range(
        &self,
        range: Extent,
        take: &mut impl FnMut(&Run, Range<u64>),
    ) -> Result<()> {
        self.runs.in_range(range, take);
        let mut blocks = Vec::new();
        self.fences.in_range(range, &mut blocks);
        for block in blocks {
            let is_sound = self.blocks.with(block as u64, |block| {
                let mut singles = block.in_range(range, &self.lengths);
                singles.try_for_each(|single| single.map(|single| take(&single, 0..1))).is_some()
            })?;
            self.demand(is_sound, block as u64)?;
        }
        Ok(())
    }

    /// Calls `take` with all runs and singles.
    pub(crate) fn all(&self, take: &mut impl FnMut(&Run)) -> Result<()> {
        self.runs.all().for_each(&mut *take);
        for number in 0..self.blocks.len() {
            let block = self.blocks.read(number)?;
            let mut singles = block.all(&self.lengths);
            let is_sound = singles.try_for_each(|single| single.map(|run| take(&run))).is_some();
            self.demand(is_sound, number)?;
        }
        Ok(())
    }

    fn demand(&self, is_sound: bool, block: u64) -> Result<()> {
        if is_sound { Ok(()) } else { Err(self.blocks.wrong(block, "has a piece that cannot be")) }
    }
}

fn decode_events(bytes: &[u8]) -> Result<Vec<Event>> {
    let event = |bytes: &[u8]| {
        let [kind, start, end, seq] = [0, 8, 16, 24].map(|at| u64_at(bytes, at));
        match kind {
            1 if start <= FILE_END && seq < FILE_END => Some(Event::truncate(start, seq)),
            2 if start < end && end <= FILE_END && seq < FILE_END => {
                Some(Event::hole(Extent::between(start, end), seq))
            }
            _ => None,
        }
    };
    let events: Option<Vec<Event>> = bytes.chunks_exact(EVENT).map(event).collect();
    events.ok_or_else(|| damaged("the index has a truncation or hole that cannot be"))
}

fn decode_fences(bytes: &[u8]) -> Result<(Vec<u64>, Vec<u64>)> {
    let starts: Vec<u64> = bytes.chunks_exact(FENCE).map(|fence| u64_at(fence, 0)).collect();
    let ends = bytes.chunks_exact(FENCE).map(|fence| u64_at(fence, 8)).collect();
    if !starts.is_sorted() {
        return Err(damaged("the blocks of the index are not sorted"));
    }
    Ok((starts, ends))
}

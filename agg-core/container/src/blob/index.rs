//! The merged index of sealed logs: runs, which are few and decoded when it is opened, and single
//! pieces, which may be many and stay in the file, sorted, in blocks that are read when needed.

use super::blocks::Blocks;
use super::damaged;
use super::frame::{FILE_END, SHORT, is_sound};
use super::live::Event;
use super::run::Run;
use super::runs::Runs;
use super::spans::Spans;
use super::varint;
use aggio_base::{Extent, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The first bytes.
pub(crate) const MAGIC: [u8; 8] = *b"aggioix1";
/// Bytes of the header.
pub(crate) const HEADER: usize = 128;
/// Bytes of a block of singles.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of a single piece.
pub(crate) const SINGLE: usize = 40;
/// Singles of a block; its last four bytes are a checksum.
pub(crate) const SINGLES: usize = (BLOCK - 4) / SINGLE;
/// Bytes of an event.
pub(crate) const EVENT: usize = 32;
/// Bytes of a fence: first start and highest end of a block.
pub(crate) const FENCE: usize = 16;

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

/// The numbers of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) uuid: u128,
    pub(crate) generation: u64,
    pub(crate) logs: u64,
    pub(crate) events: u64,
    pub(crate) runs: u64,
    /// Bytes of the coded runs.
    pub(crate) run_bytes: u64,
    pub(crate) singles: u64,
    /// Checksums of logs, events, runs and fences.
    pub(crate) sums: [u32; 4],
    /// Whether runs and singles tell where their frames begin.
    pub(crate) frames: bool,
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

impl Header {
    /// The header as bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &self.uuid.to_le_bytes());
        let numbers =
            [self.generation, self.logs, self.events, self.runs, self.run_bytes, self.singles];
        numbers.iter().enumerate().for_each(|(i, n)| put(24 + 8 * i, &n.to_le_bytes()));
        self.sums.iter().enumerate().for_each(|(i, sum)| put(72 + 4 * i, &sum.to_le_bytes()));
        put(88, &[u8::from(self.frames)]);
        let crc = aggio_base::checksum::crc32c(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self> {
        if bytes[..8] != MAGIC {
            return Err(damaged("it does not begin as an index"));
        }
        if aggio_base::checksum::crc32c(&bytes[..HEADER - 4]) != u32_at(bytes, HEADER - 4) {
            return Err(damaged("the checksum of the index's header is wrong"));
        }
        let n = |i: usize| u64_at(bytes, 24 + 8 * i);
        Ok(Self {
            uuid: u128::from(u64_at(bytes, 16)) << 64 | u128::from(u64_at(bytes, 8)),
            generation: n(0),
            logs: n(1),
            events: n(2),
            runs: n(3),
            run_bytes: n(4),
            singles: n(5),
            sums: [72, 76, 80, 84].map(|at| u32_at(bytes, at)),
            frames: bytes[88] == 1,
        })
    }

    /// Blocks of singles.
    fn blocks(&self) -> u64 {
        self.singles.div_ceil(SINGLES as u64)
    }

    /// Where logs, events, runs, fences and singles begin, and where the file ends.
    fn places(&self) -> Option<[u64; 6]> {
        let logs = HEADER as u64;
        let events = logs.checked_add(self.logs.checked_mul(8)?)?;
        let runs = events.checked_add(self.events.checked_mul(EVENT as u64)?)?;
        let fences = runs.checked_add(self.run_bytes)?;
        let singles = fences.checked_add(self.blocks().checked_mul(FENCE as u64)?)?;
        let end = singles.checked_add(self.blocks().checked_mul(BLOCK as u64)?)?;
        Some([logs, events, runs, fences, singles, end])
    }
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
        let at = path.display().to_string();
        Self::read(file, path, header_crc, length_of).map_err(|error| error.with_path(&at))
    }

    fn read(
        file: File,
        path: PathBuf,
        header_crc: u32,
        length_of: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self> {
        let fail = |error: std::io::Error| super::failed("pread", &error, &path);
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

/// Whether a run can be in a log of this many bytes.
pub(crate) fn fits(run: &Run, length: u64) -> bool {
    let last = u128::from(run.place_stride) * u128::from(run.count.max(1) - 1);
    let end = last + u128::from(run.place) + u128::from(run.length);
    let numbers = run.last_seq.checked_sub(run.seq);
    let numbered = numbers.is_some_and(|steps| steps >= run.count.saturating_sub(1));
    let told = run.framed || numbers == run.count.checked_sub(1);
    // Pieces that shared bytes of the log would be no limit for their number.
    let apart = run.count == 1 || run.place_stride >= run.length;
    let sound = is_sound(run.start, run.length, run.stride, run.count);
    sound && apart && numbered && told && end <= u128::from(length) && run.last_seq < FILE_END
}

/// One piece as a run.
pub(crate) fn single(start: u64, length: u64, log: u32, place: u64, seq: u64) -> Run {
    let (stride, count, framed, head, place_stride) = (0, 1, false, 0, 0);
    let last_seq = seq;
    Run { start, length, stride, count, log, framed, head, place, place_stride, seq, last_seq }
}

/// Reads `count` coded runs of logs of these bytes; nothing follows them.
pub(crate) fn decode_runs(mut bytes: &[u8], count: u64, lengths: &[u64]) -> Result<Vec<Run>> {
    // Every run has ten bytes at least, so there cannot be more of them than the bytes tell.
    let mut runs = Vec::with_capacity((count as usize).min(bytes.len() / 10));
    let mut last = single(0, 0, 0, 0, 0);
    for number in 0..count {
        let run = decode_run(&mut bytes, &last)
            .filter(|run| lengths.get(run.log as usize).is_some_and(|length| fits(run, *length)));
        last = run.ok_or_else(|| damaged(format!("run {number} of the index cannot be")))?;
        runs.push(last);
    }
    if !bytes.is_empty() {
        return Err(damaged("the index has bytes behind its last run"));
    }
    Ok(runs)
}

fn decode_run(bytes: &mut &[u8], last: &Run) -> Option<Run> {
    let log = u32::try_from(varint::take_from(bytes, last.log.into())?).ok()?;
    let start = varint::take_from(bytes, last.start)?;
    let length = varint::take_from(bytes, last.length)?;
    let stride = varint::take_from(bytes, last.stride as u64)? as i64;
    let count = varint::take(bytes)?;
    // A frame of its own, or how far before the first piece the frame of all begins.
    let (framed, head) = match varint::take(bytes)? {
        1 => (true, SHORT as u64),
        head => (false, head),
    };
    let place = varint::take(bytes)?;
    let place_stride = varint::take_from(bytes, last.place_stride)?;
    let seq = varint::take_from(bytes, last.seq)?;
    let last_seq = seq.checked_add(varint::take(bytes)?)?;
    let run =
        Run { start, length, stride, count, log, framed, head, place, place_stride, seq, last_seq };
    (head <= place).then_some(run)
}

/// Appends a run to the coded ones.
pub(crate) fn encode_run(bytes: &mut Vec<u8>, run: &Run, last: &Run) {
    varint::put_from(bytes, last.log.into(), run.log.into());
    varint::put_from(bytes, last.start, run.start);
    varint::put_from(bytes, last.length, run.length);
    varint::put_from(bytes, last.stride as u64, run.stride as u64);
    varint::put(bytes, run.count);
    varint::put(bytes, if run.framed { 1 } else { run.head });
    varint::put(bytes, run.place);
    varint::put_from(bytes, last.place_stride, run.place_stride);
    varint::put_from(bytes, last.seq, run.seq);
    varint::put(bytes, run.last_seq - run.seq);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_no_more_pieces_than_its_log_has_bytes() {
        let run = Run {
            stride: 20,
            count: 5,
            place_stride: 10,
            last_seq: 4,
            ..single(1000, 10, 0, 96, 0)
        };
        assert!(fits(&run, 146));
        assert!(!fits(&run, 145), "the last piece is cut off");
        assert!(!fits(&Run { place_stride: 0, ..run }, 146));
        assert!(!fits(&Run { count: 1 << 40, last_seq: (1 << 40) - 1, ..run }, 146));
        assert!(!fits(&Run { stride: 9, ..run }, 146), "pieces overlap");
        assert!(!fits(&Run { last_seq: 5, ..run }, 146), "numbers are not told by frames");
        assert!(!fits(&Run { start: FILE_END - 85, ..run }, 146));
    }
}

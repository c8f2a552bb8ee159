//! Runs as they are stored in indexes and summaries: each number as its difference from the
//! previous run's.

use crate::errors::damaged;
use crate::format::frame::{FILE_END, SHORT, is_sound};
use crate::format::run::Run;
use crate::format::varint;
use aggio_base::Result;

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

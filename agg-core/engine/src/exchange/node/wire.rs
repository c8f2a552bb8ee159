//! Parts of a window as messages between nodes: which bytes they are, then the bytes themselves.
//!
//! ```text
//! window: u64, valid: u64
//! description: rows: u32, first word: u32, words: u32, 0: u32, then
//!              rows * (start, len, stride, count: u32), or words * u64 of marks: whichever is
//!              shorter
//! bytes
//! ```
//!
//! In a repeated call the receiver has the description from the past call, and a message is only
//! bytes.

use super::super::coverage::Coverage;
use aggio_base::error::{Error, ErrorClass, Result};

/// Bytes before the description.
const HEAD: usize = 16;

/// Bytes of a description before its rows or marks.
const COUNTS: usize = 16;

/// Bytes of a row.
const ROW: usize = 16;

/// Head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The window's number.
    pub(super) window: u32,
    /// The end of the file's bytes in the window.
    pub(super) valid: u64,
}

/// The largest message for a window with this number of marks and bytes.
pub(super) fn most(marks: usize, bytes: usize) -> usize {
    HEAD + COUNTS + 8 * (marks / 64 + 2) + bytes
}

/// Starts a message about the bytes that `marks` stand for.
pub(super) fn start(head: Head, marks: &Coverage) -> Vec<u8> {
    let (used, words) = (marks.used(), marks.used_words());
    let rows = rows(marks, 8 * words.len() / ROW);
    let counts = match &rows {
        Some(rows) => [rows.len(), 0, 0, 0],
        None => [0, used.start, words.len(), 0],
    };
    let mut message = Vec::with_capacity(HEAD + COUNTS + 8 * words.len());
    message.extend_from_slice(&u64::from(head.window).to_le_bytes());
    message.extend_from_slice(&head.valid.to_le_bytes());
    let put = |message: &mut Vec<u8>, word: usize| {
        message.extend_from_slice(&(word as u32).to_le_bytes());
    };
    counts.into_iter().for_each(|count| put(&mut message, count));
    match rows {
        Some(rows) => rows.into_iter().flatten().for_each(|word| put(&mut message, word)),
        None => words.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes())),
    }
    message
}

/// The parts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened<'m> {
    pub(super) head: Head,
    pub(super) description: &'m [u8],
    pub(super) bytes: &'m [u8],
}

fn damaged() -> Error {
    Error::new(ErrorClass::Intern, "a damaged message about a window")
}

/// Adds the bytes that a message describes to `marks`, which must be empty; returns its parts.
///
/// # Errors
/// `Intern` if the message is malformed, or describes marks that the window does not have.
pub(super) fn open<'m>(message: &'m [u8], marks: &mut Coverage) -> Result<Opened<'m>> {
    let (head, rest) = message.split_at_checked(HEAD).ok_or_else(damaged)?;
    let long = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let window = u32::try_from(long(0)).map_err(|_| damaged())?;
    let head = Head { window, valid: long(8) };
    let bytes = follow(rest, marks)?;
    Ok(Opened { head, description: &rest[..rest.len() - bytes.len()], bytes })
}

/// Adds the bytes of a description to `marks`, which must be empty; returns the bytes behind it.
///
/// # Errors
/// As [`open`].
pub(super) fn follow<'m>(description: &'m [u8], marks: &mut Coverage) -> Result<&'m [u8]> {
    let (counts, rest) = description.split_at_checked(COUNTS).ok_or_else(damaged)?;
    let [rows, first, words] = [0, 4, 8].map(|at| word(counts, at));
    let described = rows.checked_mul(ROW).zip(words.checked_mul(8)).map(|(r, w)| r + w);
    let described = described.and_then(|len| rest.split_at_checked(len));
    let (described, bytes) = described.ok_or_else(damaged)?;
    let room = marks.room();
    if first.checked_add(words).is_none_or(|end| end > room / 64) {
        return Err(damaged());
    }
    if words > 0 {
        let words = described.chunks_exact(8);
        let words: Vec<u64> =
            words.map(|word| word.try_into().map_or(0, u64::from_le_bytes)).collect();
        marks.merge(first, &words);
        return Ok(bytes);
    }
    for row in described.chunks_exact(ROW) {
        let [start, len, stride, count] = [0, 4, 8, 12].map(|at| word(row, at));
        // Factors are below 2^32, so nothing overflows.
        let fits = start + stride * count.saturating_sub(1) + len <= room;
        if !fits || count == 0 || (stride == 0 && count > 1) {
            return Err(damaged());
        }
        if start + stride * count <= room {
            marks.add_rows(start, len, stride, count);
        } else {
            (0..count).for_each(|row| marks.add(start + row * stride, len));
        }
    }
    Ok(bytes)
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word)) as usize
}

/// The runs of `marks` as rows of equal runs at equal distances, if `most` of them are enough.
fn rows(marks: &Coverage, most: usize) -> Option<Vec<[usize; 4]>> {
    let mut rows: Vec<[usize; 4]> = Vec::new();
    for run in marks.runs(0) {
        if let Some([start, len, stride, count]) = rows.last_mut()
            && *len == run.len()
            && (*count == 1 || *start + *stride * *count == run.start)
        {
            *stride = if *count == 1 { run.start - *start } else { *stride };
            *count += 1;
            continue;
        }
        if rows.len() == most {
            return None;
        }
        rows.push([run.start, run.len(), 0, 1]);
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marks(runs: &[(usize, usize)]) -> Coverage {
        let mut marks = Coverage::new(4096).expect("memory");
        runs.iter().for_each(|(start, len)| marks.add(*start, *len));
        marks
    }

    const HEAD_OF: Head = Head { window: 7, valid: 99 };

    #[test]
    fn regular_runs_take_a_row_and_no_run_takes_nothing() {
        let regular: Vec<_> = (0..200).map(|i| (3 + 20 * i, 5)).collect();
        assert_eq!(start(HEAD_OF, &marks(&regular)).len(), HEAD + COUNTS + ROW);
        assert_eq!(start(HEAD_OF, &marks(&[])).len(), HEAD + COUNTS);
    }

    #[test]
    fn what_is_no_message_about_the_window_is_refused() {
        let message = start(HEAD_OF, &marks(&[(100, 300), (500, 1000)]));
        for len in 0..message.len() {
            let opened = open(&message[..len], &mut Coverage::new(4096).expect("memory"));
            assert_eq!(opened.map_err(|error| error.class()), Err(ErrorClass::Intern));
        }
        assert!(open(&message, &mut Coverage::new(1000).expect("memory")).is_err());
        let irregular: Vec<_> = (0..60).map(|i| (i * i, 1)).collect();
        let message = start(HEAD_OF, &marks(&irregular));
        assert!(open(&message, &mut Coverage::new(1000).expect("memory")).is_err());
    }

    proptest! {
        #[test]
        fn messages_tell_exactly_the_marks(
            runs in proptest::collection::vec((0..3900usize, 0..190usize), 0..40),
            regular in (0..100usize, 1..20usize, 0..20usize, 0..90usize),
        ) {
            let (at, len, gap, count) = regular;
            let mut runs = runs;
            runs.extend((0..count).map(|i| (at + i * (len + gap), len)));
            let marks = marks(&runs);
            let mut message = start(HEAD_OF, &marks);
            prop_assert!(message.len() <= most(4096, 0));
            message.extend_from_slice(b"bytes");
            let mut told = Coverage::new(4096).expect("memory");
            let Opened { head, description, bytes } = open(&message, &mut told).expect("whole");
            prop_assert_eq!((head, bytes), (HEAD_OF, &b"bytes"[..]));
            let runs = |marks: &Coverage| marks.runs(0).collect::<Vec<_>>();
            prop_assert_eq!(runs(&told), runs(&marks));
            let mut again = Coverage::new(4096).expect("memory");
            prop_assert_eq!(follow(description, &mut again), Ok(&b""[..]));
            prop_assert_eq!(runs(&again), runs(&marks));
        }
    }
}

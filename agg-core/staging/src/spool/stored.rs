//! The order in which the pieces of a slot are written to their file, and the part of them that a
//! file holds after their writer was killed.

use super::layout::PAGE;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Sorts the numbers of the pieces into the order in which they are written to their file: by
/// offset, or as they were added if some overlap. `extent` returns the offset and the length of a
/// piece, which is not empty.
pub fn sort(order: &mut [u16], extent: impl Fn(u16) -> (u64, u64)) {
    order.sort_unstable_by_key(|piece| extent(*piece).0);
    let overlap = order.windows(2).any(|two| {
        let (offset, len) = extent(two[0]);
        offset + len > extent(two[1]).0
    });
    if overlap {
        // Of two that overlap, the later holds.
        order.sort_unstable();
    }
}

/// Sorts pieces, given by offset and bytes, in the same way.
pub(super) fn sorted(pieces: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Vec<u8>)> {
    let mut order: Vec<u16> = (0..pieces.len() as u16).collect();
    sort(&mut order, |piece| {
        let (offset, run) = &pieces[usize::from(piece)];
        (*offset, run.len() as u64)
    });
    let mut pieces: Vec<_> = pieces.into_iter().map(Some).collect();
    order.iter().filter_map(|piece| pieces[usize::from(*piece)].take()).collect()
}

/// The part of pieces that a file holds after an interrupted write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The end of the last byte that was written.
    pub(super) end: u64,
    /// Whether one of the bytes is not zero. A hole has zeros, too.
    pub(super) nonzero: bool,
    /// Whether the file has all bytes of all pieces: to write them would change nothing.
    pub(super) all: bool,
}

impl Stored {
    /// Compares the file with pieces in the order in which they are written; the first `done` were
    /// recorded as written. `None` unless the file holds a prefix of them that is not empty and has
    /// all recorded ones.
    pub(super) fn of(file: &File, pieces: &[(u64, Vec<u8>)], done: usize) -> Option<Self> {
        let mut stored = Self { end: 0, nonzero: false, all: true };
        for (index, (offset, run)) in pieces.iter().enumerate() {
            let len = held(file, *offset, run, &pieces[index + 1..]);
            if len < run.len() && index < done {
                return None;
            }
            if len > 0 {
                stored.end = stored.end.max(offset + len as u64);
                stored.nonzero |= run[..len].iter().any(|byte| *byte != 0);
            }
            if len < run.len() {
                stored.all = false;
                break;
            }
        }
        (stored.end > 0).then_some(stored)
    }
}

/// How many bytes of a piece the file holds: all, or else whole pages of the file, since a write
/// that the end of its process interrupts stops between pages. Bytes of `later` pieces may cover
/// it.
fn held(file: &File, offset: u64, run: &[u8], later: &[(u64, Vec<u8>)]) -> usize {
    let mut bytes = vec![0; run.len()];
    let there = read_at_most(file, &mut bytes, offset);
    let mut same = common(&bytes[..there], run);
    while same < there && is_covered(offset + same as u64, bytes[same], later) {
        same += 1;
        same += common(&bytes[same..there], &run[same..]);
    }
    if same == run.len() {
        return same;
    }
    let page_start = (offset + same as u64) / PAGE as u64 * PAGE as u64;
    page_start.saturating_sub(offset) as usize
}

/// How many bytes of two runs are the same from their beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Whether one of the pieces has this byte at this place of the file.
fn is_covered(place: u64, byte: u8, pieces: &[(u64, Vec<u8>)]) -> bool {
    pieces.iter().any(|(offset, run)| {
        place.checked_sub(*offset).and_then(|at| run.get(at as usize)) == Some(&byte)
    })
}

/// Reads up to the end of the file; returns how many bytes. Bytes that cannot be read count as
/// missing.
fn read_at_most(file: &File, bytes: &mut [u8], offset: u64) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn pieces_are_sorted_by_offset_unless_they_overlap() {
        let pieces = |list: &[(u64, &[u8])]| -> Vec<(u64, Vec<u8>)> {
            list.iter().map(|(at, run)| (*at, run.to_vec())).collect()
        };
        let apart = sorted(pieces(&[(5, b"ab"), (0, b"cde"), (3, b"f")]));
        assert_eq!(apart, pieces(&[(0, b"cde"), (3, b"f"), (5, b"ab")]));
        let over = pieces(&[(5, b"ab"), (0, b"cde"), (4, b"fg")]);
        assert_eq!(sorted(over.clone()), over);
    }

    #[test]
    fn only_a_prefix_of_the_pieces_with_all_that_were_recorded_is_evidence() {
        let pieces = [(0, b"abc".to_vec()), (4, b"def".to_vec()), (8, b"ghi".to_vec())];
        let of = |bytes: &[u8], done| Stored::of(&file(bytes), &pieces, done).map(|one| one.end);
        assert_eq!(of(b"abc........", 0), Some(3));
        assert_eq!(of(b"abc.def....", 1), Some(7));
        assert_eq!(of(b"abc.def.ghi", 3), Some(11));
        // The first piece is not whole, or not there, or a later one alone is.
        assert_eq!(of(b"ab.........", 0), None);
        assert_eq!(of(b"....def.ghi", 0), None);
        // A piece that was recorded as written is missing.
        assert_eq!(of(b"abc........", 2), None);
        assert_eq!(of(b"abc", 2), None);
    }

    #[test]
    fn zeros_are_told_from_other_bytes() {
        let zeros = [(0, vec![0; 8]), (8, b"x".to_vec())];
        let of = |bytes: &[u8]| Stored::of(&file(bytes), &zeros, 1).unwrap();
        assert_eq!(of(&[0; 16]), Stored { end: 8, nonzero: false, all: false });
        assert_eq!(of(b"\0\0\0\0\0\0\0\0x"), Stored { end: 9, nonzero: true, all: true });
    }

    #[test]
    fn a_write_that_was_interrupted_ends_between_pages_of_the_file() {
        let run = [(100, vec![7; 3 * PAGE])];
        let mut bytes = vec![0; 4 * PAGE];
        bytes[100..2 * PAGE].fill(7);
        let two_pages = Stored { end: 2 * PAGE as u64, nonzero: true, all: false };
        assert_eq!(Stored::of(&file(&bytes), &run, 0), Some(two_pages));
        // Not a whole page.
        bytes[PAGE - 1..].fill(0);
        assert_eq!(Stored::of(&file(&bytes), &run, 0), None);
    }

    #[test]
    fn of_pieces_that_overlap_the_later_may_cover_the_earlier() {
        let pieces = [(0, b"abcd".to_vec()), (2, b"XY".to_vec()), (3, b"Z".to_vec())];
        for bytes in [&b"abcd"[..], b"abXY", b"abXZ"] {
            assert!(Stored::of(&file(bytes), &pieces, 1).is_some());
        }
        assert_eq!(Stored::of(&file(b"abQd"), &pieces, 1), None);
    }
}

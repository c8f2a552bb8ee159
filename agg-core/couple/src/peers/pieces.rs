//! Which pieces of a copy have come, and which are to come next.

use super::PIECE;
use crate::protocol::bad;
use aggio_base::Extent;
use std::collections::{BTreeSet, VecDeque};
use std::io;

/// Pieces that are asked for at a time.
const WINDOW: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Asked,
    There,
}

/// The pieces of a file.
#[derive(Debug)]
pub(crate) struct Pieces {
    size: u64,
    states: Vec<State>,
    /// How many are not there, and how many of those were asked for.
    left: u64,
    open: u64,
    /// Those that come before others, in this order.
    first: VecDeque<u64>,
    /// All are to come; those before this one were asked for.
    all: bool,
    next: u64,
    /// Those that programs wanted.
    wanted: BTreeSet<u64>,
}

impl Pieces {
    /// Those of a file of so many bytes, of which none is there.
    pub(crate) fn new(size: u64) -> Self {
        let left = size.div_ceil(PIECE);
        let (first, wanted) = (VecDeque::new(), BTreeSet::new());
        let states = vec![State::Missing; usize::try_from(left).unwrap_or(0)];
        Self { size, states, left, open: 0, first, all: false, next: 0, wanted }
    }

    /// Whether all are there.
    pub(crate) fn are_all_there(&self) -> bool {
        self.left == 0
    }

    /// The numbers of the pieces that have bytes of `extent`.
    fn of(&self, extent: Extent) -> std::ops::Range<u64> {
        let end = extent.end().min(self.size);
        extent.offset / PIECE..if extent.offset < end { end.div_ceil(PIECE) } else { 0 }
    }

    /// Whether these bytes are there, as far as there are such bytes.
    pub(crate) fn have(&self, extent: Extent) -> bool {
        self.left == 0 || self.of(extent).all(|piece| self.states[piece as usize] == State::There)
    }

    /// These bytes are to come before others, because a program wants them.
    pub(crate) fn want(&mut self, extent: Extent) {
        for piece in self.of(extent) {
            self.wanted.insert(piece);
            if self.states[piece as usize] == State::Missing {
                self.first.push_back(piece);
            }
        }
    }

    /// These pieces are expected to be wanted.
    pub(crate) fn expect(&mut self, pieces: &BTreeSet<u64>) {
        let count = self.states.len() as u64;
        self.first.extend(pieces.iter().filter(|piece| **piece < count));
    }

    /// All are to come.
    pub(crate) fn want_all(&mut self) {
        self.all = true;
    }

    pub(crate) fn are_all_wanted(&self) -> bool {
        self.all
    }

    /// Those that programs wanted.
    pub(crate) fn wanted(&self) -> &BTreeSet<u64> {
        &self.wanted
    }

    /// What is to be asked for now.
    pub(crate) fn ask(&mut self) -> Option<Extent> {
        if self.open >= WINDOW {
            return None;
        }
        let is_missing = |states: &[State], piece: u64| states[piece as usize] == State::Missing;
        while let Some(piece) = self.first.pop_front() {
            if is_missing(&self.states, piece) {
                return Some(self.asked(piece));
            }
        }
        while self.all && self.next < self.states.len() as u64 {
            self.next += 1;
            if is_missing(&self.states, self.next - 1) {
                return Some(self.asked(self.next - 1));
            }
        }
        None
    }

    fn asked(&mut self, piece: u64) -> Extent {
        self.states[piece as usize] = State::Asked;
        self.open += 1;
        self.extent(piece)
    }

    fn extent(&self, piece: u64) -> Extent {
        let offset = piece * PIECE;
        Extent::new(offset, PIECE.min(self.size - offset))
    }

    /// So many bytes have come, from `offset` on.
    ///
    /// # Errors
    /// Nobody has asked for them.
    pub(crate) fn come(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let piece = offset / PIECE;
        let state = usize::try_from(piece).ok().and_then(|piece| self.states.get_mut(piece));
        match state {
            Some(state) if *state == State::Asked => *state = State::There,
            _ => return Err(bad("bytes that nobody has asked for")),
        }
        (self.left, self.open) = (self.left - 1, self.open - 1);
        if self.extent(piece) == Extent::new(offset, len) {
            Ok(())
        } else {
            Err(bad("bytes that nobody has asked for"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 20 * PIECE + 5;

    fn asked(pieces: &mut Pieces) -> Vec<u64> {
        std::iter::from_fn(|| pieces.ask()).map(|extent| extent.offset / PIECE).collect()
    }

    fn come(pieces: &mut Pieces, all: &[u64]) {
        for piece in all {
            let offset = piece * PIECE;
            pieces.come(offset, PIECE.min(SIZE - offset)).unwrap();
        }
    }

    #[test]
    fn what_is_wanted_comes_first_and_nothing_twice() {
        let mut pieces = Pieces::new(SIZE);
        assert_eq!(pieces.ask(), None, "nobody wants anything");
        pieces.want(Extent::new(3 * PIECE + 7, PIECE));
        pieces.want(Extent::new(4 * PIECE, 1));
        assert_eq!(asked(&mut pieces), [3, 4]);
        assert!(!pieces.have(Extent::new(3 * PIECE, 1)));
        come(&mut pieces, &[3]);
        assert!(pieces.have(Extent::new(3 * PIECE, PIECE)));
        assert!(!pieces.have(Extent::new(3 * PIECE, PIECE + 1)));
        come(&mut pieces, &[4]);
        pieces.want_all();
        assert_eq!(asked(&mut pieces), [0, 1, 2, 5, 6, 7, 8, 9], "no more than the window");
        pieces.want(Extent::new(SIZE - 1, 100));
        come(&mut pieces, &[0, 1]);
        assert_eq!(asked(&mut pieces), [20, 10]);
        come(&mut pieces, &[2, 5, 6, 7, 8, 9, 20, 10]);
        let rest = asked(&mut pieces);
        come(&mut pieces, &rest);
        let rest = asked(&mut pieces);
        come(&mut pieces, &rest);
        assert!(pieces.are_all_there() && pieces.have(Extent::new(0, u64::MAX)));
        assert_eq!(pieces.wanted(), &BTreeSet::from([3, 4, 20]));
    }

    #[test]
    fn what_is_expected_comes_before_anybody_asks() {
        let mut pieces = Pieces::new(SIZE);
        pieces.expect(&BTreeSet::from([2, 19, 21, 400]));
        assert_eq!(asked(&mut pieces), [2, 19], "the file is shorter than the one before");
        assert!(pieces.wanted().is_empty());
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_refused() {
        let mut pieces = Pieces::new(SIZE);
        pieces.want_all();
        assert!(pieces.come(0, PIECE).is_err(), "not asked for");
        assert_eq!(asked(&mut pieces).len(), 8);
        for (offset, len) in [(1, PIECE), (PIECE, 5), (SIZE, 1), (u64::MAX, 1), (8 * PIECE, PIECE)]
        {
            assert!(pieces.come(offset, len).is_err(), "{len} bytes at {offset}");
        }
        assert!(Pieces::new(0).are_all_there());
        assert!(Pieces::new(5).have(Extent::new(5, 10)), "there are no such bytes");
    }
}

//! Which bytes of a copy have come, and which are to come next.

use super::{BODY, PIECE};
use crate::protocol::bad;
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// Bytes that come together: less than a message takes, and so few that not much comes besides what
/// programs read.
pub(crate) const UNIT: u64 = 4 << 10;

/// Bytes that are asked for and have not come, at most.
const WINDOW: u64 = 32 * PIECE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Asked,
    There,
}

/// The units of a file.
#[derive(Debug)]
pub(crate) struct Pieces {
    size: u64,
    states: Vec<State>,
    /// How many are not there, and how many bytes were asked for that have not come.
    left: u64,
    open: u64,
    /// Those that come before others, in this order, and those that come behind them.
    first: VecDeque<Range<u64>>,
    then: VecDeque<Range<u64>>,
    /// All are to come; those before this one were asked for.
    all: bool,
    next: u64,
    /// Those that programs wanted, as ranges of their numbers.
    wanted: Overlay<()>,
    /// A program wants bytes that were not asked for.
    is_pressing: bool,
}

impl Pieces {
    /// Those of a file of so many bytes; none is there.
    pub(crate) fn new(size: u64) -> Self {
        let left = size.div_ceil(UNIT);
        let (first, then, wanted) = (VecDeque::new(), VecDeque::new(), Overlay::default());
        let states = vec![State::Missing; usize::try_from(left).unwrap_or(0)];
        let (all, is_pressing) = (false, false);
        Self { size, states, left, open: 0, first, then, all, next: 0, wanted, is_pressing }
    }

    /// The file has more bytes than was expected, and none of them was asked for.
    pub(crate) fn grow(&mut self, size: u64) {
        let wanted = std::mem::take(&mut self.first);
        *self = Self { first: wanted, ..Self::new(size) };
    }

    /// Whether all are there.
    pub(crate) fn are_all_there(&self) -> bool {
        self.left == 0
    }

    /// The numbers of the units that have bytes of `extent`.
    fn of(&self, extent: Extent) -> Range<u64> {
        let end = extent.end().min(self.size);
        extent.offset / UNIT..if extent.offset < end { end.div_ceil(UNIT) } else { 0 }
    }

    fn is(&self, unit: u64, state: State) -> bool {
        self.states.get(unit as usize) == Some(&state)
    }

    /// Whether these bytes are there, as far as there are such bytes.
    pub(crate) fn have(&self, extent: Extent) -> bool {
        self.left == 0 || self.of(extent).all(|unit| self.is(unit, State::There))
    }

    /// These bytes are to come before others, because a program wants them.
    pub(crate) fn want(&mut self, extent: Extent) {
        self.note_wanted(extent);
        let units = self.of(extent);
        if units.clone().any(|unit| self.is(unit, State::Missing)) {
            self.first.push_back(units);
            self.is_pressing = true;
        }
    }

    /// A program reads these bytes.
    pub(crate) fn note_wanted(&mut self, extent: Extent) {
        let units = self.of(extent);
        if !units.is_empty() {
            self.wanted.join(Extent::between(units.start, units.end), ());
        }
    }

    /// These bytes are to come behind those that programs want.
    pub(crate) fn want_later(&mut self, extent: Extent) {
        let units = self.of(extent);
        if units.clone().any(|unit| self.is(unit, State::Missing)) {
            self.then.push_back(units);
        }
    }

    /// These units are expected to be wanted.
    pub(crate) fn expect(&mut self, units: &Overlay<()>) {
        let count = self.states.len() as u64;
        self.first.extend(units.iter().map(|(units, ())| units.offset..units.end().min(count)));
    }

    /// All are to come.
    pub(crate) fn want_all(&mut self) {
        self.all = true;
    }

    pub(crate) fn are_all_wanted(&self) -> bool {
        self.all
    }

    /// Those that programs wanted.
    pub(crate) fn wanted(&self) -> &Overlay<()> {
        &self.wanted
    }

    /// The bytes of these units.
    pub(crate) fn bytes_of(&self, units: &Overlay<()>) -> Vec<Extent> {
        let bytes = |units: Extent| Extent::between(units.offset * UNIT, units.end() * UNIT);
        let whole = Extent::new(0, self.size);
        let all = units.iter().map(|(units, ())| bytes(units).intersect(whole));
        all.filter(|extent| !extent.is_empty()).collect()
    }

    /// All that is to be asked for now: many bytes at a time, unless a program has begun to wait.
    pub(crate) fn ask_all(&mut self) -> Vec<Extent> {
        if !std::mem::take(&mut self.is_pressing) && self.open > WINDOW / 2 {
            return Vec::new();
        }
        std::iter::from_fn(|| self.ask()).collect()
    }

    /// The next range to ask for: missing bytes that follow each other, of one message at most.
    fn ask(&mut self) -> Option<Extent> {
        if self.open >= WINDOW {
            return None;
        }
        while let Some(units) = self.first.pop_front() {
            if let Some(run) = self.missing(units.clone()) {
                self.first.push_front(run.end..units.end);
                return Some(self.asked(run));
            }
        }
        while let Some(units) = self.then.pop_front() {
            if let Some(run) = self.missing(units.clone()) {
                self.then.push_front(run.end..units.end);
                return Some(self.asked(run));
            }
        }
        if !self.all {
            return None;
        }
        let end = self.states.len() as u64;
        let run = self.missing(self.next..end);
        self.next = run.as_ref().map_or(end, |run| run.end);
        run.map(|run| self.asked(run))
    }

    /// The first units of these that are missing and follow each other, no more than a message has.
    fn missing(&self, units: Range<u64>) -> Option<Range<u64>> {
        let start = units.clone().find(|unit| self.is(*unit, State::Missing))?;
        let most = units.end.min(start + BODY / UNIT);
        let end = (start..most).find(|unit| !self.is(*unit, State::Missing));
        Some(start..end.unwrap_or(most))
    }

    fn asked(&mut self, units: Range<u64>) -> Extent {
        self.states[units.start as usize..units.end as usize].fill(State::Asked);
        let (offset, end) = (units.start * UNIT, (units.end * UNIT).min(self.size));
        self.open += end - offset;
        Extent::between(offset, end)
    }

    /// What was asked for of a range does not come: it is missing again, and asked for only if a
    /// program wants it.
    pub(crate) fn fail(&mut self, range: Extent) {
        for unit in self.of(range) {
            if self.is(unit, State::Asked) {
                self.states[unit as usize] = State::Missing;
                self.open -= UNIT.min(self.size - unit * UNIT);
            }
        }
        self.all = false;
        self.then.clear();
    }

    /// So many bytes have come, from `offset` on.
    ///
    /// # Errors
    /// Nobody has asked for them.
    pub(crate) fn come(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size && len > 0);
        let ends = |end: &u64| end.is_multiple_of(UNIT) || *end == self.size;
        let units = end.filter(ends).map(|end| offset / UNIT..end.div_ceil(UNIT));
        let units = units.filter(|units| {
            offset.is_multiple_of(UNIT) && units.clone().all(|unit| self.is(unit, State::Asked))
        });
        let units = units.ok_or_else(|| bad("bytes that nobody has asked for"))?;
        self.states[units.start as usize..units.end as usize].fill(State::There);
        (self.left, self.open) = (self.left - (units.end - units.start), self.open - len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 50 * PIECE + 5;

    fn asked(pieces: &mut Pieces) -> Vec<Extent> {
        pieces.ask_all()
    }

    fn come(pieces: &mut Pieces, all: &[Extent]) {
        all.iter().for_each(|extent| pieces.come(extent.offset, extent.len).unwrap());
    }

    fn units(first: u64, count: u64) -> Extent {
        Extent::new(first * UNIT, count * UNIT)
    }

    #[test]
    fn what_is_wanted_comes_first_and_nothing_twice() {
        let mut pieces = Pieces::new(SIZE);
        assert_eq!(pieces.ask(), None, "nobody wants anything");
        pieces.want(Extent::new(3 * UNIT + 7, UNIT));
        pieces.want(Extent::new(4 * UNIT, 1));
        pieces.want(Extent::new(9 * UNIT - 1, 2));
        assert_eq!(asked(&mut pieces), [units(3, 2), units(8, 2)]);
        assert!(!pieces.have(Extent::new(3 * UNIT, 1)));
        come(&mut pieces, &[units(3, 2)]);
        assert!(pieces.have(Extent::new(3 * UNIT, 2 * UNIT)));
        assert!(!pieces.have(Extent::new(3 * UNIT, 2 * UNIT + 1)));
        pieces.want_later(units(11, 2));
        pieces.want(units(15, 1));
        assert_eq!(asked(&mut pieces), [units(15, 1), units(11, 2)]);
        pieces.want_all();
        let rest = asked(&mut pieces);
        assert_eq!(rest[..2], [units(0, 3), units(5, 3)]);
        let open: u64 = rest.iter().map(|extent| extent.len).sum();
        assert!(open <= WINDOW + BODY, "no more than the window: {open}");
        pieces.want(Extent::new(SIZE - 1, 100));
        come(&mut pieces, &rest);
        let rest = asked(&mut pieces);
        assert_eq!(rest[0], Extent::new(50 * PIECE, 5));
        assert_eq!(asked(&mut pieces), [], "more when these have come");
    }

    #[test]
    fn what_is_expected_comes_before_anybody_asks() {
        let mut pieces = Pieces::new(SIZE);
        let mut expected = Overlay::default();
        let last = SIZE / UNIT;
        let runs = [(2, 3), (last - 1, last + 2), (40_000, 40_001)];
        runs.iter().for_each(|(start, end)| expected.join(Extent::between(*start, *end), ()));
        pieces.expect(&expected);
        let end = Extent::between((last - 1) * UNIT, SIZE);
        assert_eq!(asked(&mut pieces), [units(2, 1), end], "it is shorter than the one before");
        assert!(pieces.wanted().is_empty());
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_refused() {
        let mut pieces = Pieces::new(SIZE);
        pieces.want_all();
        assert!(pieces.come(0, UNIT).is_err(), "not asked for");
        asked(&mut pieces);
        let wrong = [(1, UNIT), (UNIT, 5), (0, 0), (SIZE, 1), (u64::MAX, 1), (49 * PIECE, UNIT)];
        for (offset, len) in wrong {
            assert!(pieces.come(offset, len).is_err(), "{len} bytes at {offset}");
        }
        assert!(Pieces::new(0).are_all_there());
        assert!(Pieces::new(5).have(Extent::new(5, 10)), "there are no such bytes");
    }

    proptest! {
        #[test]
        fn all_that_is_wanted_comes_once(
            size in 1..40 * UNIT,
            wants in prop::collection::vec((0..41 * UNIT, 1..9 * UNIT), 1..12),
            all in any::<bool>(),
        ) {
            let mut pieces = Pieces::new(size);
            let mut came = vec![false; size.div_ceil(UNIT) as usize];
            for (offset, len) in &wants {
                pieces.want(Extent::new(*offset, *len));
                while let Some(extent) = pieces.ask() {
                    prop_assert!(extent.len <= BODY);
                    for unit in extent.offset / UNIT..extent.end().div_ceil(UNIT) {
                        prop_assert!(!std::mem::replace(&mut came[unit as usize], true));
                    }
                    pieces.come(extent.offset, extent.len).unwrap();
                }
                prop_assert!(pieces.have(Extent::new(*offset, *len)));
            }
            if all {
                pieces.want_all();
                while let Some(extent) = pieces.ask() {
                    pieces.come(extent.offset, extent.len).unwrap();
                }
                prop_assert!(pieces.are_all_there());
            }
        }
    }
}

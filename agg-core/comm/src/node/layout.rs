//! The layout of the shared memory of a node.
//!
//! ```text
//! process numbers of the members | reaches of their rolls | events of calls
//! | rolls | dismissals | parts
//! operation 0: control words | slots | results | verdict | boards | marks in use | windows | marks
//! operation 1: ...
//! ```

use super::Map;

/// Operations that the ranks of a node can have under way at a time; more wait for their turn.
pub(crate) const OPERATIONS: usize = 4;

/// Operations that a rank can be at without the others; see `arrivals.rs`.
pub(crate) const CALLS: usize = 256;

/// Windows of one operation that may be filled or stored at a time.
pub(crate) const DEPTH: usize = 4;

/// Bytes of a rank's part of a meeting.
pub(crate) const SUMMARY: usize = 64;

/// Bytes for a rank's error message.
pub(crate) const RESULT: usize = 1024;

/// Windows that were not stored in full, of one operation, see `ring.rs`.
pub(crate) const FAILURES: usize = 4 * DEPTH;

/// The messages that nodes exchange, with the same number of bytes from each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// After their ranks have met.
    News,
    /// After an error: the windows that each node did not store.
    Lost,
}

impl Board {
    /// Bytes of each node.
    const fn item(self) -> usize {
        match self {
            Board::News => 64,
            Board::Lost => 8 + 16 * FAILURES,
        }
    }

    /// The control word that says whether the board is full.
    pub(crate) fn word(self) -> usize {
        match self {
            Board::News => control::NEWS,
            Board::Lost => control::LOST,
        }
    }
}

/// Memory that windows and their marks may take on a node.
const BUDGET: usize = 64 << 20;

const WINDOW: usize = 1 << 20;
const SMALLEST_WINDOW: usize = 64 << 10;
const PAGE: usize = 4096;

/// The places of one node's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    members: usize,
    nodes: usize,
    /// Bytes of a window at most.
    pub(crate) window: usize,
    /// Bytes of marks of one member in one slot.
    marks_len: usize,
}

/// The control words of an operation, as distances from its start.
pub(crate) mod control {
    pub(crate) const ID: usize = 0;
    pub(crate) const END: usize = 8;
    pub(crate) const EVENTS: usize = 16;
    pub(crate) const LEFT: usize = 20;
    pub(crate) const ENDED: usize = 28;
    pub(crate) const FAILED: usize = 32;
    pub(crate) const DONE: usize = 36;
    pub(crate) const FIRST_FAILED: usize = 40;
    pub(crate) const FAILURES: usize = 44;
    pub(crate) const NEWS: usize = 48;
    pub(crate) const VERDICT: usize = 52;
    pub(crate) const LOST: usize = 56;
    pub(crate) const STORING: usize = 60;
    /// Pairs of (window, offset), 16 bytes each.
    pub(crate) const FAILURE_LIST: usize = 64;
    pub(crate) const SLOTS: usize = 1024;
    pub(crate) const SLOT: usize = 64;
    pub(crate) const BYTES: usize = 4096;
}

impl Layout {
    /// The layout for this rank's node.
    pub(crate) fn of(map: &Map) -> Self {
        Self::new(map.members_of(map.node()).len(), map.leaders().len(), map.most())
    }

    /// The layout for `members` ranks, one of `nodes` nodes with `most` ranks at most: windows
    /// have one size on all.
    pub(crate) fn new(members: usize, nodes: usize, most: usize) -> Self {
        let mut marks_len = WINDOW / 8;
        let all = |marks_len: usize| OPERATIONS * DEPTH * (WINDOW + most * marks_len);
        while marks_len > SMALLEST_WINDOW / 8 && all(marks_len) > BUDGET {
            marks_len /= 2;
        }
        Self { members, nodes, window: WINDOW, marks_len }
    }

    /// Bytes of a window at most that has a mark for each 2 to the power `grain` bytes.
    pub(crate) fn window_of(&self, grain: u32) -> usize {
        let grain = grain.min(WINDOW.ilog2());
        ((8 * self.marks_len) << grain).min(self.window)
    }

    /// Bytes of the whole memory.
    pub(crate) fn len(&self) -> usize {
        self.operation(OPERATIONS)
    }

    /// The word with the process number of member `index`.
    pub(crate) fn process(&self, index: usize) -> usize {
        4 * index
    }

    /// How far one has to look for a call of member `index`.
    pub(crate) fn reach(&self, index: usize) -> usize {
        self.process(self.members) + 4 * index
    }

    /// The word that changes when all ranks have called an operation; behind it is the count of
    /// ranks with full rolls.
    pub(crate) fn calls(&self) -> usize {
        self.reach(self.members).next_multiple_of(64)
    }

    /// The number of the operation in place `call` of the roll of member `index`.
    pub(crate) fn call(&self, index: usize, call: usize) -> usize {
        self.calls() + 64 + 8 * (CALLS * index + call)
    }

    /// How many members have left the operation that member 0 called in that place, if they
    /// claimed no place for it.
    pub(crate) fn dismissed(&self, call: usize) -> usize {
        self.call(self.members, 0) + 4 * call
    }

    /// The part of member `index` in that call.
    pub(crate) fn part(&self, index: usize, call: usize) -> usize {
        self.dismissed(CALLS) + SUMMARY * (CALLS * index + call)
    }

    /// The start of operation `place`.
    pub(crate) fn operation(&self, place: usize) -> usize {
        self.base() + place * (self.marks(DEPTH, 0) - self.base())
    }

    fn base(&self) -> usize {
        self.part(self.members, 0).next_multiple_of(PAGE)
    }

    // The places below are those of operation 0; `Operation` adds the distance.

    /// The error of member `index`.
    pub(crate) fn result(&self, index: usize) -> usize {
        self.base() + control::BYTES + RESULT * index
    }

    /// The error that all nodes agreed on.
    pub(crate) fn verdict(&self) -> usize {
        self.result(self.members)
    }

    /// The messages exchanged by all nodes.
    pub(crate) fn board(&self, board: Board) -> usize {
        let first = self.verdict() + RESULT;
        match board {
            Board::News => first,
            Board::Lost => first + self.board_len(Board::News),
        }
    }

    /// Bytes of [`Layout::board`].
    pub(crate) fn board_len(&self, board: Board) -> usize {
        board.item() * self.nodes
    }

    /// Which part of the marks of member `index` in slot `slot` is in use.
    pub(crate) fn used(&self, slot: usize, index: usize) -> usize {
        self.board(Board::Lost) + self.board_len(Board::Lost) + 8 * (slot * self.members + index)
    }

    /// The window of slot `slot`.
    pub(crate) fn window(&self, slot: usize) -> usize {
        self.used(DEPTH, 0).next_multiple_of(PAGE) + self.window * slot
    }

    /// The marks of member `index` in slot `slot`: a bit for each byte of the window, or for more,
    /// and one word for a window that starts inside a word.
    pub(crate) fn marks(&self, slot: usize, index: usize) -> usize {
        self.window(DEPTH) + (slot * self.members + index) * self.marks_len()
    }

    /// Bytes of marks of one member in one slot.
    pub(crate) fn marks_len(&self) -> usize {
        self.marks_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_marks_stay_within_the_budget() {
        for members in 1..=64 {
            let layout = Layout::new(members, 1, members);
            assert!(layout.window_of(0) >= SMALLEST_WINDOW);
            let control =
                OPERATIONS * (control::BYTES + (members + 2) * (RESULT + 8 * DEPTH) + PAGE);
            let rolls = CALLS * (members * (8 + SUMMARY) + 4);
            assert!(
                layout.len() <= BUDGET + control + rolls + 3 * PAGE,
                "{members}: {}",
                layout.len()
            );
        }
        let window = |members, most, grain| Layout::new(members, 9, most).window_of(grain);
        assert_eq!((window(8, 8, 0), window(8, 8, 255)), (1 << 20, 1 << 20));
        assert_eq!((window(1, 64, 0), window(64, 64, 0)), (256 << 10, 256 << 10));
        assert_eq!((window(64, 64, 1), window(64, 64, 3)), (512 << 10, 1 << 20));
        assert_eq!((window(128, 128, 0), window(128, 128, 3)), (128 << 10, 1 << 20));
    }

    #[test]
    fn nothing_overlaps() {
        let layout = Layout::new(3, 5, 4);
        let places = [
            (layout.process(0), 3 * 4),
            (layout.reach(0), 3 * 4),
            (layout.calls(), 8),
            (layout.call(0, 0), 3 * 8 * CALLS),
            (layout.dismissed(0), 4 * CALLS),
            (layout.part(0, 0), 3 * SUMMARY * CALLS),
            (layout.operation(0), control::BYTES),
            (layout.result(0), 3 * RESULT),
            (layout.verdict(), RESULT),
            (layout.board(Board::News), layout.board_len(Board::News)),
            (layout.board(Board::Lost), layout.board_len(Board::Lost)),
            (layout.used(0, 0), 3 * 8 * DEPTH),
            (layout.window(0), layout.window * DEPTH),
            (layout.marks(0, 0), 3 * DEPTH * layout.marks_len()),
            (layout.operation(1), 0),
        ];
        for pair in places.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{places:?}");
        }
        const { assert!(control::SLOTS >= control::FAILURE_LIST + 16 * FAILURES) };
        const { assert!(control::BYTES >= control::SLOTS + control::SLOT * DEPTH) };
    }
}

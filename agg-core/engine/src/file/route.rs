//! The route of a read or write, decided once when the call is made.

use crate::Direction;

/// The way that a data call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One run of bytes of one rank, without a plan.
    FastPath,
    /// The first rank buffers a header with the older bytes that it announces.
    BufferedHeader,
    /// All ranks vote whether the write is buffered.
    Voted,
    /// All ranks write at once, as they know without a vote.
    Straight,
    /// This rank alone.
    Independent,
    /// All ranks.
    Collective,
    /// All ranks, at the shared file pointer in rank order.
    Ordered,
}

impl Route {
    /// The name, for the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Route::FastPath => "fast path",
            Route::BufferedHeader => "buffered header",
            Route::Voted => "voted",
            Route::Straight => "straight",
            Route::Independent => "independent",
            Route::Collective => "collective",
            Route::Ordered => "ordered",
        }
    }
}

/// The properties of a call and of its file that determine the route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) direction: Direction,
    pub(super) is_collective: bool,
    /// At the shared file pointer in rank order.
    pub(super) is_ordered: bool,
    /// The call returns when it is done.
    pub(super) may_block: bool,
    pub(super) is_only_rank: bool,
    /// Writes of the file are buffered.
    pub(super) buffers: bool,
}

impl Situation {
    /// The route. `goes_straight` and `joins` are asked only if they count: whether all ranks know
    /// that the write is not buffered, and whether it joins buffered bytes as their header.
    pub(super) fn route(
        self,
        goes_straight: impl FnOnce() -> bool,
        joins: impl FnOnce() -> bool,
    ) -> Route {
        let may_buffer = self.buffers && self.direction == Direction::Write && !self.is_ordered;
        if may_buffer && self.is_collective && self.may_block {
            if goes_straight() { Route::Straight } else { Route::Voted }
        } else if !self.is_collective || self.is_only_rank {
            if joins() { Route::BufferedHeader } else { Route::Independent }
        } else if self.is_ordered {
            Route::Ordered
        } else {
            Route::Collective
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A blocking collective write of several ranks, of a file without write-behind.
    const WRITE: Situation = Situation {
        direction: Direction::Write,
        is_collective: true,
        is_ordered: false,
        may_block: true,
        is_only_rank: false,
        buffers: false,
    };
    const BUFFERED: Situation = Situation { buffers: true, ..WRITE };

    fn route(situation: Situation) -> Route {
        situation.route(|| false, || false)
    }

    #[test]
    fn without_write_behind_ranks_and_the_pointer_determine_the_route() {
        for direction in [Direction::Read, Direction::Write] {
            let call = Situation { direction, ..WRITE };
            assert_eq!(route(call), Route::Collective);
            assert_eq!(route(Situation { is_ordered: true, ..call }), Route::Ordered);
            assert_eq!(route(Situation { is_collective: false, ..call }), Route::Independent);
            let alone = Situation { is_only_rank: true, is_ordered: true, ..call };
            assert_eq!(route(alone), Route::Independent);
        }
    }

    #[test]
    fn ranks_vote_about_blocking_collective_writes_unless_they_know_the_result() {
        let never = || -> bool { unreachable!("it does not count") };
        assert_eq!(BUFFERED.route(|| false, never), Route::Voted);
        assert_eq!(BUFFERED.route(|| true, never), Route::Straight);
        let nonblocking = Situation { may_block: false, ..BUFFERED };
        assert_eq!(nonblocking.route(never, never), Route::Collective);
        assert_eq!(route(Situation { is_ordered: true, ..BUFFERED }), Route::Ordered);
        assert_eq!(route(Situation { direction: Direction::Read, ..BUFFERED }), Route::Collective);
        let alone = Situation { is_collective: false, ..BUFFERED };
        assert_eq!(alone.route(never, || true), Route::BufferedHeader);
        assert_eq!(alone.route(never, || false), Route::Independent);
    }
}

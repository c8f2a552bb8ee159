//! Collective writes that wait: the ranks meet, tell where they write, and decide alike whether
//! this write waits.
//!
//! It does not if another handle of the file is open, if a rank has no room, or if ranks had to ask
//! for what waited. What waits never overlaps between two calls, so that each rank may store its
//! part at any time.

use super::agreement::{Kind, Words, meet};
use super::data::Request;
use super::flush::Flush;
use super::{Direction, File};
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_comm::tags::TagBlock;
use aggio_store::driver::Outcome;
use std::sync::Arc;

/// Flags, in the highest bits of the numbers of a message.
const FLAG: u64 = 1 << 63;

/// What a rank tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stand {
    /// Where it writes, and where what waits with it belongs.
    writes: Extent,
    holds: Extent,
    /// It must write at once.
    is_pressed: bool,
    has_no_room: bool,
    was_asked: bool,
}

impl Stand {
    fn to_words(self) -> Words {
        let flag = |on: bool| if on { FLAG } else { 0 };
        let Self { writes, holds, .. } = self;
        [
            writes.offset | flag(self.is_pressed),
            writes.end() | flag(self.has_no_room),
            holds.offset | flag(self.was_asked),
            holds.end(),
        ]
    }

    fn from_words(words: &Words) -> Self {
        let [at, end, from, to] = words.map(|word| word & !FLAG);
        let [is_pressed, has_no_room, was_asked, _] = words.map(|word| word & FLAG != 0);
        let (writes, holds) = (Extent::between(at, end), Extent::between(from, to));
        Self { writes, holds, is_pressed, has_no_room, was_asked }
    }

    /// What all ranks tell together.
    fn and(self, other: Self) -> Self {
        Self {
            writes: self.writes.hull(other.writes),
            holds: self.holds.hull(other.holds),
            is_pressed: self.is_pressed || other.is_pressed,
            has_no_room: self.has_no_room || other.has_no_room,
            was_asked: self.was_asked || other.was_asked,
        }
    }
}

impl File {
    /// Carries out a collective write that may wait.
    pub(super) async fn write_later(
        self: &Arc<Self>,
        request: Result<Request>,
        meeting: TagBlock,
        flush: Option<Flush>,
        tags: TagBlock,
    ) -> Outcome {
        let mine = self.stand(&request, flush.as_ref());
        let all = meet(&*self.transport, &meeting, Kind::Later, mine.to_words(), Ok(())).await;
        let all = match all {
            Ok(all) => all.iter().map(Stand::from_words).fold(Stand::default(), Stand::and),
            Err(error) => return Outcome { bytes: 0, result: Err(error) },
        };
        let waits = self.waiting().is_some_and(|mut waiting| {
            waiting.was_asked = false;
            !waiting.habit.skips(all.was_asked) && !all.is_pressed
        });
        let meets_older = !all.holds.intersect(all.writes).is_empty();
        let flushes = !all.holds.is_empty() && (!waits || meets_older || all.has_no_room);
        let flushed = if flushes { self.flush(flush).await } else { Ok(()) };
        if !waits || flushed.is_err() {
            return self.collective(Direction::Write, flushed.and(request), tags).await;
        }
        if let Some(mut waiting) = self.waiting() {
            waiting.hull = waiting.hull.hull(all.writes);
        }
        let kept = self.keep(request, true);
        self.answer_others();
        kept
    }

    /// What this rank tells the others of a write.
    fn stand(&self, request: &Result<Request>, flush: Option<&Flush>) -> Stand {
        let writes = request.as_ref().map_or(Extent::default(), Request::span);
        let has_no_room = request.as_ref().is_ok_and(|request| !self.finds_room(request.len));
        let is_alone = self.others().is_empty();
        let Some(waiting) = self.waiting() else { return Stand::default() };
        let is_quiet = flush.is_some_and(|flush| flush.finds_quiet(&waiting));
        let everything = Extent::between(0, FLAG - 1);
        Stand {
            writes,
            holds: if is_quiet { waiting.pending.hull() } else { everything },
            is_pressed: request.is_err() || !is_alone || !is_quiet,
            has_no_room,
            was_asked: waiting.was_asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_tells_survives_the_way() {
        let stand = Stand {
            writes: Extent::between(5, (1 << 63) - 1),
            holds: Extent::between(0, 7),
            is_pressed: true,
            has_no_room: false,
            was_asked: true,
        };
        assert_eq!(Stand::from_words(&stand.to_words()), stand);
        let none = Stand::default();
        assert_eq!(none.and(stand), stand);
        let other = Stand { writes: Extent::between(1, 3), has_no_room: true, ..none };
        assert_eq!(stand.and(other).writes, Extent::between(1, (1 << 63) - 1));
        assert!(stand.and(other).has_no_room);
    }
}

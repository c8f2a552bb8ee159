//! Speculative transfers: ranks that predict no overlap move their bytes before they synchronise.
//!
//! Ranks with requests that do not overlap need only each other's result. A rank predicts this if
//! its last call was independent and its own request is of that kind. It then moves its bytes
//! first, and all ranks synchronise once, after the transfer, instead of before and after it.
//! Predictions may differ: a rank that has already moved its bytes takes part in the rest of the
//! call as a rank without data.
//!
//! On one node only: between nodes a meeting takes messages, and there requests of one rank may
//! take the file's locks away from another. Not where requests take long: there a wrong prediction
//! costs requests that an exchange would have joined, and a meeting is short beside one of them.

use super::{Direction, Request, Scene, chunks, straight};
use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_comm::task::place::anywhere;
use aggio_comm::transport::Transport;
use aggio_config::hints::Switch;
use aggio_plan::plan::cost::are_parts_worth_staging;
use aggio_plan::plan::{Ahead, Decision, Method, Summary, Total};
use aggio_store::driver::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// A rank's prediction for the next collective call on a file.
#[derive(Debug, Default)]
pub struct Habits {
    reads: Habit,
    writes: Habit,
}

/// The mean length of pieces of the last call, if its ranks accessed the file each for itself;
/// else 0.
#[derive(Debug, Default)]
struct Habit(AtomicU64);

impl Habits {
    /// Habits after independent calls with pieces of mean length `len`; 0 if the calls were not
    /// independent.
    #[cfg(test)]
    pub(super) fn of_pieces(len: u64) -> Self {
        let habit = || Habit(AtomicU64::new(len));
        Self { reads: habit(), writes: habit() }
    }

    /// The length of pieces that a write is expected to have, or 0.
    #[cfg(test)]
    pub(super) fn expected_of_writes(&self) -> u64 {
        self.writes.0.load(Ordering::Relaxed)
    }

    fn of(&self, direction: Direction) -> &Habit {
        match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        }
    }

    /// Records the method that the ranks chose, even if some of them transferred speculatively.
    pub(super) fn learn(&self, direction: Direction, decision: Decision, total: &Total) {
        let Habit(piece) = self.of(direction);
        match decision.method {
            Method::Independent => {
                piece.store((total.bytes / total.pieces.max(1)).max(1), Ordering::Relaxed);
            }
            Method::TwoPhase => piece.store(0, Ordering::Relaxed),
            Method::Fail | Method::Nothing => {}
        }
    }
}

/// Whether all ranks share one node and its memory.
pub(super) fn are_together(transport: &dyn Transport) -> bool {
    transport.node().is_some_and(|node| !node.has_others())
}

/// Moves this rank's bytes if its prediction is that aggregation would not help; the outcome.
pub(super) async fn go(
    scene: Scene<'_>,
    direction: Direction,
    request: &Result<Request<'_>>,
    mine: &Summary,
) -> Option<Outcome> {
    let request = request.as_ref().ok()?;
    if !is_expected(scene, direction, mine) {
        return None;
    }
    anywhere().await;
    scene.driver.is_available().then(|| straight(scene, *request, direction))
}

fn is_expected(scene: Scene<'_>, direction: Direction, mine: &Summary) -> bool {
    let buffering = match direction {
        Direction::Read => scene.hints.romio_cb_read,
        Direction::Write => scene.hints.romio_cb_write,
    };
    let waits = scene.staged && are_parts_worth_staging(mine.figures, mine.bytes, mine.pieces);
    let own_log = (scene.logs || waits) && direction == Direction::Write;
    let Habit(piece) = scene.habits.of(direction);
    let piece = piece.load(Ordering::Relaxed);
    let of_the_kind = mine.pieces <= 1 || mine.bytes / mine.pieces >= piece / 2;
    piece > 0
        && of_the_kind
        && mine.bytes > 0
        && (own_log || !mine.figures.is_slow())
        && !mine.unordered
        && !chunks::are_forced(scene.hints)
        && scene.atomic.is_none()
        && (own_log || buffering != Switch::Enable && !scene.hints.romio_no_indep_rw)
        && are_together(scene.transport)
}

/// The summary's flag for a rank with this speculative outcome, if it has one.
pub(super) fn told(outcome: Option<&Outcome>) -> Ahead {
    match outcome.map(|outcome| &outcome.result) {
        None => Ahead::No,
        Some(Ok(())) => Ahead::Done,
        Some(Err(_)) => Ahead::Failed,
    }
}

/// The number of bytes that a rank has moved speculatively.
pub(super) fn bytes(gone: &Option<Outcome>) -> u64 {
    gone.as_ref().map_or(0, |outcome| outcome.bytes)
}

/// Whether ranks that bring this have nothing left to do.
pub(super) fn is_over(all: &[Summary]) -> bool {
    let done = |rank: &Summary| rank.ahead == Ahead::Done || rank.bytes == 0;
    all.iter().all(|rank| !rank.failed && rank.ahead != Ahead::Failed && done(rank))
}

/// Whether a rank has met an error, so that those that did not go ahead need not begin.
pub(super) fn has_failed(all: &[Summary]) -> bool {
    all.iter().any(|rank| rank.ahead == Ahead::Failed)
}

/// The summaries without the requests that have been carried out speculatively.
pub(super) fn rest(all: &[Summary]) -> Vec<Summary> {
    let rest = |rank: &Summary| match rank.ahead {
        Ahead::No => *rank,
        _ => Summary { span: Extent::default(), bytes: 0, pieces: 0, ..*rank },
    };
    all.iter().map(rest).collect()
}

//! The steps of a collective call after its ranks have synchronised, both for ranks that moved
//! their bytes before and for those that did not.

use super::plan_cache::Outline;
use super::{
    Decided, Direction, Heard, Request, Scene, carry_out, chunks, fill, node, speculative, step,
};
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::tags::TagBlock;
use aggio_plan::plan::{self, Ahead, Decision, Method, Reason, Summary, Total, Way, Wishes};
use aggio_store::driver::Outcome;
use aggio_types::memory::Memory;

/// A call after the meeting of its ranks.
pub(super) struct Rendezvous<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) tags: &'a TagBlock,
    pub(super) direction: Direction,
    pub(super) wishes: Wishes,
    pub(super) mine: Summary,
    pub(super) outline: Option<Outline>,
}

impl Rendezvous<'_> {
    /// The rest of the call for a rank that went ahead, with this outcome.
    pub(super) async fn end(
        &self,
        request: Result<Request<'_>>,
        gone: Outcome,
        heard: Heard<'_>,
        decision: Decision,
    ) -> Result<Outcome> {
        let bytes = gone.bytes;
        if speculative::is_over(&heard.members) {
            self.count_habit(decision);
            return Ok(gone);
        }
        if decision.method == Method::Fail || speculative::has_failed(&heard.members) {
            let result = heard.meeting.agree(step::AGREE, gone.result).await;
            return Ok(Outcome { bytes, result });
        }
        let memory = Memory::nothing();
        let nothing = request.map(|request| Request { memory: &memory, ..request });
        let result = self.rest(nothing, heard).await.and_then(|outcome| outcome.result);
        Ok(Outcome { bytes, result })
    }

    /// The call of a rank that has not begun.
    pub(super) async fn begin(
        &self,
        request: Result<Request<'_>>,
        heard: Heard<'_>,
        decision: Decision,
    ) -> Result<Outcome> {
        let (together, members) = (self.wishes.together, &heard.members);
        if decision.method == Method::Nothing || (together && speculative::is_over(members)) {
            if decision.method != Method::Nothing {
                self.count_habit(decision);
            }
            return Ok(Outcome { bytes: 0, result: Ok(()) });
        }
        if decision.method == Method::Fail || speculative::has_failed(members) {
            let result = heard.meeting.agree(step::AGREE, request.map(|_| ())).await;
            return Ok(Outcome { bytes: 0, result });
        }
        if members.iter().any(|rank| rank.ahead != Ahead::No) {
            return self.rest(request, heard).await;
        }
        let (request, Heard { meeting, total, .. }) = (request?, &heard);
        if fill::may_be_behind_end(total)
            && let Some(outcome) =
                fill::extend(self.scene, self.tags, request, total, meeting).await?
        {
            return Ok(outcome);
        }
        self.carry_out(request, heard, decision).await
    }

    /// Carries out the requests of the ranks that did not transfer speculatively.
    async fn rest(&self, request: Result<Request<'_>>, heard: Heard<'_>) -> Result<Outcome> {
        let members = speculative::rest(&heard.members);
        let total = Total::of(&members);
        let decision = plan::decide(&total, self.wishes);
        self.carry_out(request?, Heard { members, total, repeat: None, ..heard }, decision).await
    }

    async fn carry_out(
        &self,
        request: Request<'_>,
        heard: Heard<'_>,
        decision: Decision,
    ) -> Result<Outcome> {
        let Heard { meeting, members, nodes, total, repeat } = heard;
        let party = node::Party { members: &members, nodes: &nodes, total };
        // The requests left by some ranks are not worth caching.
        let whole = members.iter().all(|rank| rank.ahead == Ahead::No);
        let (mine, outline) = (self.mine, self.outline.filter(|_| whole));
        let (scene, all) = (self.scene, (&total, decision));
        let found = match whole && chunks::are_told(&scene, &total, decision) {
            // Boxed, for it is large, and few calls have chunks.
            true => Box::pin(chunks::find(scene, self.tags, &request, self.direction, all)).await?,
            false => None,
        };
        let chunks = found.as_deref();
        let decided = Decided { meeting: &meeting, party, mine, decision, outline, repeat, chunks };
        // Boxed, for it is large: a call of ranks that went ahead does not carry its room about.
        Box::pin(carry_out(self.scene, request, self.tags, self.direction, decided)).await
    }

    /// Counts a call that each rank with data had carried out before it met the others.
    fn count_habit(&self, decision: Decision) {
        let counters = self.scene.counters;
        Counters::add(&counters.collective_alone, 1);
        let reason = match decision.method {
            Method::Independent => decision.reason,
            _ => Reason::Habit,
        };
        if self.scene.transport.rank() == 0 {
            counters.decided.count(Way::Independent, reason);
        }
    }
}

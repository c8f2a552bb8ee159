//! Deferred views: where writes are deferred, or a hint allows it, ranks set views without
//! synchronising.
//!
//! A new view sets the shared file pointer to 0. As ranks do not synchronise, each of these views
//! has its own shared pointer, which was set to 0 when the ranks met last; when all pointers have
//! been used, the ranks meet again. Hints that must be equal and new findings about the file's
//! format wait for that meeting, or for the next collective flush.

use super::agreement::{Kind, meet_with_news, step};
use super::info::AgreedHints;
use super::write_behind::Flush;
use super::{Amode, File};
use aggio_base::error::{Error, Result};
use aggio_base::report::Counters;
use aggio_comm::tags::TagBlock;
use aggio_comm::transport::POINTERS;
use aggio_config::hints::Switch;
use aggio_types::view::View;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Views up to which ranks meet at each.
const FEW_VIEWS: u32 = 8;

/// How far a rank is since the ranks met.
#[derive(Default)]
pub(super) struct DeferredViews {
    /// The shared pointer in force.
    pointer: u32,
    /// The shared pointers that this rank has moved since they were 0, a bit each.
    moved: u64,
    /// Whether there is something that a meeting has to settle.
    unmet: bool,
    /// The error of the view that this rank set last, if no other rank has received it.
    failed: Option<Error>,
    /// The hints that this rank was given, if they have to be agreed on.
    wish: Option<AgreedHints>,
}

impl DeferredViews {
    /// The state of a file just opened. `moved` says whether its shared pointer is not 0.
    pub(super) fn new(moved: bool) -> Self {
        Self { moved: u64::from(moved), ..Self::default() }
    }

    /// The shared pointer in force.
    pub(super) fn pointer(&self) -> u32 {
        self.pointer
    }

    /// This rank moves the pointer in force.
    pub(super) fn note_moved(&mut self) {
        self.moved |= 1 << self.pointer;
    }

    /// The shared pointers that this rank has moved, a bit each.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// The next pointer is in force, if there is one that has not been used.
    fn advance(&mut self) -> bool {
        let can = self.pointer + 1 < POINTERS;
        if can {
            self.pointer += 1;
            self.unmet = true;
        }
        can
    }
}

impl File {
    /// Whether this rank sets its view without the others, as they all do; then the next shared
    /// pointer is in force.
    pub(super) fn takes_turn(&self) -> bool {
        let are_many = self.views.fetch_add(1, Ordering::Relaxed) >= FEW_VIEWS;
        let may = self.buffers_writes() || are_many && self.may_set_views_alone();
        self.transport.size() > 1 && may && self.state().turns.advance()
    }

    fn may_set_views_alone(&self) -> bool {
        let state = self.state();
        // If the shared pointer determines the displacement, all ranks have to read it.
        let is_sequential = self.amode.has(Amode::SEQUENTIAL);
        state.hints.hints.aggio_views_alone == Switch::Enable
            && !self.atomic.is_on()
            && !is_sequential
    }

    /// The error of this rank's current view, if writes are not deferred and other ranks have not
    /// received it.
    ///
    /// # Errors
    /// That error.
    pub(super) fn check_turn(&self) -> Result<()> {
        self.state().turns.failed.clone().map_or(Ok(()), Err)
    }

    /// Sets this rank's view. An error in it is the error of this rank alone.
    ///
    /// # Errors
    /// The error in the view.
    pub(super) fn set_view_alone(&self, view: Result<View>, hints: AgreedHints) -> Result<()> {
        let view = self.check_open().and(view);
        Counters::add(&self.counters().views_alone, 1);
        let mut state = self.state();
        if !self.write_behind.is_on() {
            state.turns.failed = view.as_ref().err().cloned();
        }
        state.view = Arc::new(view?);
        state.individual = 0;
        state.hints = if hints.digest == state.hints.digest {
            // Also drops a different request of an earlier view.
            state.turns.wish = None;
            hints
        } else {
            let agreed = state.hints.hints.must_agree();
            let meanwhile =
                hints.clone().adopting(&agreed, self.transport.size(), false, &self.path);
            state.turns.wish = Some(hints);
            meanwhile
        };
        drop(state);
        self.write_behind.set_hints(&self.hints());
        Ok(())
    }

    /// The hints that this rank was given last.
    pub(super) fn wished_hints(&self) -> AgreedHints {
        let state = self.state();
        state.turns.wish.as_ref().unwrap_or(&state.hints).clone()
    }

    /// Whether a call that all ranks make has to settle something first; once.
    fn takes_unmet(&self) -> bool {
        std::mem::take(&mut self.state().turns.unmet)
    }

    /// As [`File::flush_tags`], before a call that returns when it is done on all ranks: the flush
    /// also settles views set without a meeting, by the tags returned with it.
    pub(super) fn settling_flush(&self) -> Option<(Flush, Option<TagBlock>)> {
        let flush = self.flush_tags()?;
        Some((flush, self.takes_unmet().then(|| self.tags.next())))
    }

    /// Settles views set without a meeting, and writes the buffered writes of all ranks.
    ///
    /// # Errors
    /// As [`WriteBehind::flush`](super::write_behind::WriteBehind::flush).
    pub(super) async fn settle_and_flush(
        &self,
        flush: Option<(Flush, Option<TagBlock>)>,
    ) -> Result<()> {
        let Some((mut flush, settles)) = flush else { return Ok(()) };
        if let Some(tags) = settles {
            self.write_behind.drain_others();
            self.settle_turns(&tags).await?;
            flush.set_map(self.storage.format().map());
        }
        self.write_behind.flush(Some(flush)).await
    }

    /// Settles hints and findings about the format left open by views set without a meeting.
    /// Collective.
    ///
    /// # Errors
    /// The same on every rank, if they are in different operations.
    async fn settle_turns(&self, tags: &TagBlock) -> Result<()> {
        let hints = self.wished_hints();
        let (transport, words) = (&*self.transport, [hints.digest, 0, 0, 0]);
        let met = meet_with_news(
            transport,
            tags,
            Kind::Flush,
            words,
            Ok(()),
            self.storage.format().has_news(),
        );
        let (all, news) = met.await?;
        if news {
            self.storage.format().share_news(&*self.transport, tags.tag(step::NEWS)).await?;
        }
        let hints = hints.agree(self, &all, 0, tags).await?;
        self.take_agreed(hints);
        Ok(())
    }

    /// All ranks have agreed on these hints.
    pub(super) fn take_agreed(&self, hints: AgreedHints) {
        let mut state = self.state();
        state.hints = hints;
        state.turns.wish = None;
        drop(state);
        self.write_behind.set_hints(&self.hints());
    }
}

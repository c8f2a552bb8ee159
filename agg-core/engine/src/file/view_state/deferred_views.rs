//! Deferred views: where writes are buffered, or a hint allows it, ranks set views without
//! synchronising.
//!
//! A new view sets the shared file pointer to 0. As ranks do not synchronise, each of these views
//! has its own shared pointer, which was set to 0 when the ranks met last; when all pointers have
//! been used, the ranks meet again. Hints that must be equal and new findings about the file's
//! format wait for that meeting, or for the next collective flush.

use crate::file::info::AgreedHints;
use aggio_base::error::{Error, Result};
use aggio_comm::transport::POINTERS;

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
    requested: Option<AgreedHints>,
    /// Views that were set.
    views: u32,
}

impl DeferredViews {
    /// The state of a file just opened. `moved` says whether its shared pointer is not 0.
    pub(super) fn new(moved: bool) -> Self {
        Self { moved: u64::from(moved), ..Self::default() }
    }

    /// The ranks have met and set their views.
    pub(super) fn renew(&mut self) {
        *self = Self { views: self.views, ..Self::default() };
    }

    /// The shared pointer in force.
    pub(super) fn pointer(&self) -> u32 {
        self.pointer
    }

    /// This rank moves the pointer in force, and returns its number.
    pub(super) fn note_moved(&mut self) -> u32 {
        self.moved |= 1 << self.pointer;
        self.pointer
    }

    /// The shared pointers that this rank has moved, a bit each.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// Counts a view; whether there were many before.
    pub(super) fn count(&mut self) -> bool {
        self.views = self.views.saturating_add(1);
        self.views > FEW_VIEWS
    }

    /// The next pointer is in force, if there is one that has not been used.
    pub(super) fn advance(&mut self) -> bool {
        let can = self.pointer + 1 < POINTERS;
        if can {
            self.pointer += 1;
            self.unmet = true;
        }
        can
    }

    /// Whether a meeting has to settle something; once.
    pub(super) fn takes_unmet(&mut self) -> bool {
        std::mem::take(&mut self.unmet)
    }

    /// Keeps the error of a view for the next operation of all ranks.
    pub(super) fn set_failed(&mut self, error: Option<Error>) {
        self.failed = error;
    }

    /// # Errors
    /// The error of the view in force, if other ranks have not received it.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The hints to agree on, if there are any.
    pub(super) fn requested(&self) -> Option<&AgreedHints> {
        self.requested.as_ref()
    }

    /// These hints are to be agreed on, or none.
    pub(super) fn set_requested(&mut self, requested: Option<AgreedHints>) {
        self.requested = requested;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_meet_when_all_shared_pointers_have_been_used() {
        let mut deferred = DeferredViews::new(true);
        assert!(!deferred.takes_unmet() && deferred.moved() == 1);
        assert_eq!((0..1000).take_while(|_| deferred.advance()).count() as u32, POINTERS - 1);
        assert!(deferred.takes_unmet() && !deferred.takes_unmet());
        assert_eq!(deferred.note_moved(), POINTERS - 1);
        deferred.renew();
        assert!(deferred.pointer() == 0 && deferred.moved() == 0 && deferred.advance());
    }

    #[test]
    fn ranks_meet_at_the_first_views_and_each_counts_all() {
        let mut deferred = DeferredViews::new(false);
        assert_eq!((0..100).take_while(|_| !deferred.count()).count() as u32, FEW_VIEWS);
        deferred.renew();
        assert!(deferred.count());
    }
}

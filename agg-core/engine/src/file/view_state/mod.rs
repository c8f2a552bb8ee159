//! The view of an open file on one rank, its file pointers, and its hints.

mod claim;
mod deferred_views;
mod pointers;
#[cfg(test)]
mod tests;

pub(super) use claim::Run;
pub use pointers::Whence;

use super::Amode;
use super::info::AgreedHints;
use aggio_base::diagnostics::Diagnostics;
use aggio_base::error::Result;
use aggio_comm::transport::{SharedPointer, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_types::view::View;
use deferred_views::DeferredViews;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The view and the file pointers of one rank.
pub(super) struct ViewState {
    amode: Amode,
    transport: Arc<dyn Transport>,
    /// `None` if the ranks cannot share one.
    shared: Option<Arc<dyn SharedPointer>>,
    state: Mutex<State>,
}

struct State {
    view: Arc<View>,
    /// This rank's file pointer, in etypes of the view.
    individual: u64,
    hints: AgreedHints,
    /// The shared file pointer in force, and the changes to settle at the next meeting.
    deferred: DeferredViews,
}

impl ViewState {
    /// That of a file just opened, with pointers at byte `start`.
    pub(super) fn new(
        amode: Amode,
        transport: Arc<dyn Transport>,
        shared: Option<Arc<dyn SharedPointer>>,
        start: u64,
        hints: AgreedHints,
    ) -> Self {
        let deferred = DeferredViews::new(start != 0);
        let state = State { view: Arc::new(View::bytes()), individual: start, hints, deferred };
        Self { amode, transport, shared, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mode given to the open.
    pub(super) fn amode(&self) -> Amode {
        self.amode
    }

    /// The view in force.
    pub(super) fn view(&self) -> Arc<View> {
        self.state().view.clone()
    }

    /// The hints in force.
    pub(super) fn hints(&self) -> Arc<Hints> {
        self.state().hints.hints.clone()
    }

    /// The hints that this rank was given last.
    pub(super) fn requested_hints(&self) -> AgreedHints {
        let state = self.state();
        state.deferred.requested().unwrap_or(&state.hints).clone()
    }

    /// The hints that this rank was given last, changed by `info`.
    pub(super) fn changed_hints(
        &self,
        info: &[(String, String)],
        complaints: &mut Diagnostics,
    ) -> AgreedHints {
        let old = self.requested_hints();
        if info.is_empty() {
            return old;
        }
        let mut hints = (*old.hints).clone();
        hints.update(info, complaints);
        AgreedHints::new(hints, self.transport.size())
    }

    /// All ranks have agreed on these hints.
    pub(super) fn take_agreed(&self, hints: AgreedHints) {
        let mut state = self.state();
        state.hints = hints;
        state.deferred.set_requested(None);
    }

    /// Whether this rank sets its view without the others, as they all do; then the next shared
    /// pointer is in force. `buffers` says whether writes are buffered.
    pub(super) fn defers_view(&self, buffers: bool, atomic: bool) -> bool {
        let mut state = self.state();
        let are_many = state.deferred.count();
        // If the shared pointer determines the displacement, all ranks have to read it.
        let is_sequential = self.amode.has(Amode::SEQUENTIAL);
        let is_allowed = state.hints.hints.aggio_views_alone == Switch::Enable;
        let may = buffers || are_many && is_allowed && !atomic && !is_sequential;
        self.transport.size() > 1 && may && state.deferred.advance()
    }

    /// Whether a call that all ranks make has to settle something first; once.
    pub(super) fn takes_unmet(&self) -> bool {
        self.state().deferred.takes_unmet()
    }

    /// Sets this rank's view without the others. An error in it is the error of this rank alone; if
    /// it is `kept`, also that of the next operation.
    ///
    /// # Errors
    /// The error in the view.
    pub(super) fn set_alone(
        &self,
        view: Result<View>,
        hints: AgreedHints,
        kept: bool,
        path: &str,
    ) -> Result<()> {
        let mut state = self.state();
        if kept {
            state.deferred.set_failed(view.as_ref().err().cloned());
        }
        state.view = Arc::new(view?);
        state.individual = 0;
        if hints.digest == state.hints.digest {
            // Also drops a different request of an earlier view.
            state.deferred.set_requested(None);
            state.hints = hints;
        } else {
            let agreed = state.hints.hints.must_agree();
            state.hints = hints.clone().adopting(&agreed, self.transport.size(), false, path);
            state.deferred.set_requested(Some(hints));
        }
        Ok(())
    }

    /// Sets this rank's view, as all ranks have agreed; the shared pointer is at 0.
    pub(super) fn set(&self, view: View, hints: AgreedHints) {
        let mut state = self.state();
        state.view = Arc::new(view);
        state.individual = 0;
        state.deferred.renew();
        state.hints = hints;
    }
}

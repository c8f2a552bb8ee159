//! Setting the view of a file.

use super::File;
use super::view_change::ViewChange;
use aggio_base::diagnostics::Diagnostics;
use aggio_base::error::Result;
use aggio_comm::task::BoxFuture;
use aggio_types::view::View;
use std::sync::Arc;

/// Where a view starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// At the byte that the view itself says.
    OfView,
    /// Where the shared file pointer is now: `MPI_DISPLACEMENT_CURRENT`, for SEQUENTIAL files.
    Current,
}

impl File {
    /// Sets this rank's view and both file pointers to 0; collective.
    ///
    /// The view may differ between ranks in displacement and filetype. An error in it travels to
    /// the other ranks; then all keep their views. `info` may hold new hints. If writes are
    /// deferred, or with `aggio_views_alone`, no rank waits for another except in one of many
    /// calls; an error is then the error of one rank alone.
    ///
    /// # Errors
    /// If ranks meet, the same on every rank: the error in any rank's view; `NotSame` if the data
    /// representations differ; `Arg` if `displacement` does not go with the access mode.
    pub fn set_view(
        self: &Arc<Self>,
        view: Result<View>,
        displacement: Displacement,
        info: &[(String, String)],
        complaints: &mut Diagnostics,
    ) -> BoxFuture<'static, Result<()>> {
        let (file, tags) = (self.clone(), self.tags.next());
        let hints = self.views.changed_hints(info, complaints);
        let atomic = self.atomic.is_on();
        let alone = self.views.defers_view(self.write_behind.buffers(atomic), atomic);
        let change = ViewChange::new(self, view, displacement, hints);
        Box::pin(async move {
            let set = match alone {
                true => change.alone(),
                false => change.with_all(&tags).await,
            };
            set.map_err(|error| file.context(error, "MPI_File_set_view"))
        })
    }
}

//! Setting the view of a file.

use super::agreement::{Kind, from_rank, meet_with_news, step};
use super::info::{AgreedHints, digest};
use super::{Amode, File};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
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
        let alone = self.views.takes_turn(self.buffers_writes(), self.atomic.is_on());
        Box::pin(async move {
            let set = match alone {
                true => file
                    .check_displacement(displacement)
                    .and_then(|()| file.set_view_alone(view, hints)),
                false => file.meet_and_set_view(view, displacement, hints, &tags).await,
            };
            set.map_err(|error| file.context(error, "MPI_File_set_view"))
        })
    }

    async fn meet_and_set_view(
        &self,
        view: Result<View>,
        displacement: Displacement,
        hints: AgreedHints,
        tags: &TagBlock,
    ) -> Result<()> {
        let checked =
            self.lifecycle.check_open().and_then(|()| self.check_displacement(displacement));
        let moved = self.views.shared_moved();
        let (words, checked) = match (&view, checked) {
            (Ok(view), Ok(())) => {
                ([digest(view.representation()), hints.digest, displacement as u64, moved], Ok(()))
            }
            (Err(error), Ok(())) => ([0; 4], Err(error.clone())),
            (_, Err(error)) => ([0; 4], Err(error)),
        };
        let transport = &*self.transport;
        let met = meet_with_news(
            transport,
            tags,
            Kind::SetView,
            words,
            checked,
            self.storage.format().has_news(),
        );
        let (all, news) = met.await?;
        if news {
            self.storage.format().share_news(&*self.transport, tags.tag(step::NEWS)).await?;
        }
        if all.iter().any(|words| words[0] != all[0][0]) {
            let text = "the data representation differs between ranks";
            return Err(Error::new(ErrorClass::NotSame, text));
        }
        let mut view = view?;
        let hints = hints.agree(transport, &all, 1, tags, self.path()).await?;
        if displacement == Displacement::Current {
            let moved = self.views.moved_to_current(&view);
            let local = moved.as_ref().map(drop).map_err(Clone::clone);
            group::agree(&*self.transport, tags.tag(3), local).await?;
            view = moved?;
        }
        // The first pointer is set to 0 below, regardless of which rank moved it.
        let moved = all.iter().fold(0, |all, words| all | words[3]);
        if displacement == Displacement::Current || moved != 0 {
            from_rank(&*self.transport, tags, self.leader, || {
                self.views.reset_shared(moved).map(|()| [0; 4])
            })
            .await?;
        }
        self.views.set(view, hints);
        self.write_behind.set_hints(&self.hints());
        Ok(())
    }

    /// Sets this rank's view. An error in it is the error of this rank alone.
    fn set_view_alone(&self, view: Result<View>, hints: AgreedHints) -> Result<()> {
        let view = self.lifecycle.check_open().and(view);
        Counters::add(&self.counters().views_alone, 1);
        self.views.set_alone(view, hints, !self.write_behind.is_on(), self.path())?;
        self.write_behind.set_hints(&self.hints());
        Ok(())
    }

    /// SEQUENTIAL files have views at the current place only, other files never (MPI-4.1, 14.3).
    fn check_displacement(&self, displacement: Displacement) -> Result<()> {
        let sequential = self.views.amode().has(Amode::SEQUENTIAL);
        if sequential == (displacement == Displacement::Current) {
            return Ok(());
        }
        let text = "MPI_DISPLACEMENT_CURRENT goes with files opened SEQUENTIAL, and only with them";
        Err(Error::new(ErrorClass::Arg, text))
    }
}

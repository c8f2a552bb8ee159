//! A change of the view of an open file, with the other ranks or without.

use super::agreement::{Kind, Words, from_rank, meet_with_news, step};
use super::info::{AgreedHints, digest};
use super::{Displacement, File};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_types::view::View;
use std::sync::Arc;

/// A view to set, and the hints given with it.
pub(super) struct ViewChange {
    file: Arc<File>,
    /// An error in it travels to the other ranks, if they meet.
    view: Result<View>,
    displacement: Displacement,
    hints: AgreedHints,
}

impl ViewChange {
    /// A change that has not begun.
    pub(super) fn new(
        file: &Arc<File>,
        view: Result<View>,
        displacement: Displacement,
        hints: AgreedHints,
    ) -> Self {
        Self { file: file.clone(), view, displacement, hints }
    }

    /// Sets this rank's view. An error in it is the error of this rank alone.
    pub(super) fn alone(self) -> Result<()> {
        let Self { file, view, displacement, hints } = self;
        file.views.amode().check_displacement(displacement == Displacement::Current)?;
        let view = file.lifecycle.check_open().and(view);
        Counters::add(&file.counters().views_alone, 1);
        file.views.set_alone(view, hints, !file.write_behind.is_on(), file.path())?;
        file.write_behind.set_hints(&file.hints());
        Ok(())
    }

    /// Sets the views of all ranks.
    ///
    /// # Errors
    /// The same on every rank.
    pub(super) async fn with_all(self, tags: &TagBlock) -> Result<()> {
        let all = self.meet(tags).await?;
        let Self { file, view, displacement, hints } = self;
        let (transport, is_current) = (&*file.transport, displacement == Displacement::Current);
        let mut view = view?;
        let hints = hints.agree(transport, &all, 1, tags, file.path()).await?;
        if is_current {
            let moved = file.views.moved_to_current(&view);
            let local = moved.as_ref().map(drop).map_err(Clone::clone);
            group::agree(transport, tags.tag(3), local).await?;
            view = moved?;
        }
        // The first pointer is set to 0 below, whether or not a rank moved it.
        let moved = all.iter().fold(0, |all, words| all | words[3]);
        if is_current || moved != 0 {
            let reset = || file.views.reset_shared(moved).map(|()| [0; 4]);
            from_rank(transport, tags, file.leader, reset).await?;
        }
        file.views.set(view, hints);
        file.write_behind.set_hints(&file.hints());
        Ok(())
    }

    /// The ranks meet; returns their messages.
    async fn meet(&self, tags: &TagBlock) -> Result<Vec<Words>> {
        let Self { file, view, displacement, hints } = self;
        let is_current = *displacement == Displacement::Current;
        let checked = file.lifecycle.check_open();
        let checked = checked.and_then(|()| file.views.amode().check_displacement(is_current));
        let checked = checked.and_then(|()| view.as_ref().map_err(Clone::clone));
        let words = checked.as_ref().map_or([0; 4], |view| {
            let representation = digest(view.representation());
            [representation, hints.digest, *displacement as u64, file.views.shared_moved()]
        });
        let (transport, format) = (&*file.transport, file.storage.format());
        let (kind, news) = (Kind::SetView, format.has_news());
        let met = meet_with_news(transport, tags, kind, words, checked.map(|_| ()), news);
        let (all, news) = met.await?;
        if news {
            format.share_news(transport, tags.tag(step::NEWS)).await?;
        }
        if all.iter().any(|words| words[0] != all[0][0]) {
            let text = "the data representation differs between ranks";
            return Err(Error::new(ErrorClass::NotSame, text));
        }
        Ok(all)
    }
}

//! The hints of an open file.

use super::File;
use super::agreement::{Kind, Words, meet};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::error::Result;
use aggio_base::log::{self, Level};
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use aggio_comm::transport::Transport;
use aggio_config::hints::{Hints, InForce};
use aggio_store::driver::Striped;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The hints of a file; where equal values are needed, all ranks have agreed on them.
#[derive(Clone)]
pub(super) struct AgreedHints {
    pub(super) hints: Arc<Hints>,
    /// Of the values that must be equal on all ranks.
    pub(super) digest: u64,
}

impl AgreedHints {
    /// The hints of one of `ranks`, before they are compared with those of the others.
    pub(super) fn new(hints: impl Into<Arc<Hints>>, ranks: usize) -> Self {
        let hints = hints.into();
        let digest = if ranks == 1 { 0 } else { digest(&hints.must_agree()) };
        Self { digest, hints }
    }

    /// Adopts rank 0's values if ranks differ. `all` are the messages of the ranks in their
    /// meeting, with the digests in word `place`.
    pub(super) async fn agree(
        self,
        transport: &dyn Transport,
        all: &[Words],
        place: usize,
        tags: &TagBlock,
        path: &str,
    ) -> Result<Self> {
        let Some(other) = all.iter().position(|words| words[place] != all[0][place]) else {
            return Ok(self);
        };
        let values = self.hints.must_agree();
        let values = group::bcast(transport, tags.tag(4), 0, values).await?;
        let tells = transport.rank() == other;
        Ok(self.adopting(&values, transport.size(), tells, path))
    }

    /// With a value that the engine had to choose.
    pub(super) fn with_note(self, name: &str, value: &str, ranks: usize) -> Self {
        let mut hints = (*self.hints).clone();
        hints.note(name, value);
        Self::new(hints, ranks)
    }

    /// With rank 0's values where `ranks` ranks need the same. The first rank with different values
    /// passes `tells`, and logs the difference.
    pub(super) fn adopting(self, values: &[u8], ranks: usize, tells: bool, path: &str) -> Self {
        let mut hints = (*self.hints).clone();
        let contradictions = hints.adopt(values);
        if tells {
            for text in contradictions {
                log::once_on_any_rank(Level::Warn, &format!("{path}: {text}"));
            }
        }
        Self::new(hints, ranks)
    }
}

/// A number that is the same on all ranks for equal values, and otherwise hardly ever.
pub(super) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl File {
    /// Takes new hints; collective. Hints that count at open only keep their values.
    ///
    /// Errors in `info` go to `complaints` and change nothing.
    ///
    /// # Errors
    /// `File` if the file has been closed, `Other` if the ranks call different operations.
    pub fn set_info(
        self: &Arc<Self>,
        info: &[(String, String)],
        complaints: &mut Diagnostics,
    ) -> BoxFuture<'static, Result<()>> {
        let (file, tags) = (self.clone(), self.tags.next());
        let hints = self.views.changed_hints(info, complaints);
        Box::pin(async move {
            let set = async {
                let words = [hints.digest, 0, 0, 0];
                let checked = file.lifecycle.check_open();
                let all = meet(&*file.transport, &tags, Kind::SetInfo, words, checked).await?;
                let hints = hints.agree(&*file.transport, &all, 0, &tags, file.path()).await?;
                file.take_agreed(hints);
                Ok(())
            };
            set.await.map_err(|error| file.context(error, "MPI_File_set_info"))
        })
    }

    /// The hints in force and the values that the engine really uses.
    pub fn info(&self) -> Vec<InForce> {
        let mut hints = (*self.hints()).clone();
        let ranks: Vec<String> =
            self.storage.reach().aggregators.iter().map(usize::to_string).collect();
        hints.note("cb_nodes", &ranks.len().to_string());
        hints.note("romio_aggregator_list", &ranks.join(" "));
        let node = self.transport.node();
        if let Some(node) = node.filter(|node| node.members().len() == self.transport.size()) {
            let window = hints.cb_buffer_size.min(node.window());
            hints.note("aggio_window_size", &window.to_string());
        }
        hints.note("romio_filesystem_type", self.driver().name());
        // The file's real striping, regardless of the request. Without stripes the unit still
        // determines file domains.
        let facts = self.driver().facts();
        if facts.striping_unit > 0 {
            hints.note("striping_unit", &facts.striping_unit.to_string());
        }
        if facts.striping_factor > 0 {
            hints.note("striping_factor", &facts.striping_factor.to_string());
        }
        let set = self.driver().striped() == Striped::Set;
        let is_true = |hint: &InForce| match hint.name {
            "striping_factor" => facts.striping_factor > 0,
            "start_iodevice" => set,
            _ => true,
        };
        hints.in_force().into_iter().filter(is_true).collect()
    }

    /// The hints in force.
    pub fn hints(&self) -> Arc<Hints> {
        self.views.hints()
    }

    /// All ranks have agreed on these hints.
    pub(super) fn take_agreed(&self, hints: AgreedHints) {
        self.views.take_agreed(hints);
        self.write_behind.set_hints(&self.hints());
    }
}

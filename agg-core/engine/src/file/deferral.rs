//! At open: whether writes of the file may be deferred, and how ranks request flushes of each
//! other.

use super::Amode;
use super::lane::FileLane;
use super::open_result::OpenResult;
use super::opening::{Opened, Opening, step};
use aggio_base::error::{ErrorClass, Result};
use aggio_base::log::{self, Level};
use aggio_comm::asks::NodeAsks;
use aggio_comm::transport::Holders;
use aggio_config::hints::Switch;

/// How the writes of a file wait; the same on all ranks.
#[derive(Debug, Default)]
pub(super) struct Deferral {
    /// They may.
    pub(super) defers: bool,
    /// Which ranks of the node hold something back, where ranks can ask for it.
    pub(super) holders: Option<Holders>,
    /// How to ask other nodes.
    pub(super) asks: Option<NodeAsks>,
}

impl Opening<'_> {
    /// Whether no rank may be left to itself: a node may not see the file.
    pub(super) fn is_everywhere(&self, news: &OpenResult, opened: &Opened) -> bool {
        !news.deferred || opened.openers.len() == self.transport.nodes().count()
    }

    /// Settles how writes wait; collective if there are several nodes.
    ///
    /// # Errors
    /// Where the ranks cannot talk to each other.
    pub(super) async fn deferral(
        &self,
        news: &OpenResult,
        home: &FileLane,
        opened: &Opened,
    ) -> Result<Deferral> {
        let (hints, amode) = (&self.hints.hints, self.request.amode);
        let may_defer = hints.aggio_defer == Switch::Enable
            && amode.is_writable()
            && !amode.has(Amode::SEQUENTIAL)
            && !opened.found.facts.is_staged;
        if !may_defer || hints.aggio_defer_unasked {
            return Ok(Deferral { defers: may_defer, ..Deferral::default() });
        }
        let (nodes, rank) = (home.transport.nodes(), home.transport.rank());
        let offers = home.offers().filter(|_| home.transport.size() > 1);
        let ranks = nodes.beside(rank).count();
        let holders = offers.map(|(table, lane)| Holders::new(table, lane, ranks));
        if nodes.count() == 1 {
            return Ok(Deferral { defers: holders.is_some(), holders, asks: None });
        }
        // Ranks that do not see the file, or not the writes of other nodes, cannot store their part
        // on demand of another rank.
        if !self.is_everywhere(news, opened) || opened.found.facts.is_by_node {
            return Ok(Deferral::default());
        }
        let asks = self.connect_nodes(holders.as_ref()).await?;
        let holders = holders.filter(|_| asks.is_some());
        Ok(Deferral { defers: holders.is_some(), holders, asks })
    }

    /// Connects the nodes, unless that was in vain once.
    async fn connect_nodes(&self, holders: Option<&Holders>) -> Result<Option<NodeAsks>> {
        let (deferring, workers) = (&self.engine.deferring, self.engine.workers());
        let tags = [step::NODES, step::CONNECTED].map(|step| self.tags.tag(step));
        // A user who names a directory for stages expects system calls to see deferred writes.
        let may_buffer = self.request.stages.is_none_or(|stages| stages.or_buffers);
        let tried = !deferring.is_unreachable() && may_buffer;
        match NodeAsks::connect(self.transport, tags, holders, workers, tried).await {
            Err(error) if error.class() == ErrorClass::Other => {
                deferring.note_unreachable();
                let text = format!(
                    "{}: writes are not buffered: the nodes cannot reach each other: {error}",
                    self.request.path
                );
                log::once(Level::Warn, &text);
                Ok(None)
            }
            connected => connected,
        }
    }
}

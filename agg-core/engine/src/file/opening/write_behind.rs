//! At open: whether writes of the file are buffered, and how ranks request flushes of each other.

use super::lane::FileLane;
use super::result::OpenResult;
use super::{Opened, Opening, step};
use crate::file::Amode;
use crate::file::write_behind::Terms;
use aggio_base::error::{ErrorClass, Result};
use aggio_base::log::{self, Level};
use aggio_comm::asks::NodeAsks;
use aggio_comm::transport::Holders;
use aggio_config::hints::Switch;

impl Opening<'_> {
    /// Whether no rank may be left to itself: a node may not see the file.
    pub(super) fn is_everywhere(&self, result: &OpenResult, opened: &Opened) -> bool {
        !result.deferred || opened.openers.len() == self.transport.nodes().count()
    }

    /// Settles how writes wait; collective if there are several nodes.
    ///
    /// # Errors
    /// Where the ranks cannot talk to each other.
    pub(super) async fn write_behind(
        &self,
        result: &OpenResult,
        lane: &FileLane,
        opened: &Opened,
    ) -> Result<Terms> {
        let (hints, amode) = (&self.hints.hints, self.request.amode);
        let may_buffer_writes = hints.aggio_defer == Switch::Enable
            && amode.is_writable()
            && !amode.has(Amode::SEQUENTIAL)
            && !opened.found.facts.is_staged;
        if !may_buffer_writes {
            return Ok(Terms::default());
        }
        let (nodes, rank) = (lane.transport.nodes(), lane.transport.rank());
        let offers = lane.offers().filter(|_| lane.transport.size() > 1);
        let ranks = nodes.beside(rank).count();
        let holders = offers.map(|(table, slot)| Holders::new(table, slot, ranks));
        if nodes.count() == 1 {
            return Ok(Terms { holders, asks: None });
        }
        // Ranks that do not see the file, or not the writes of other nodes, cannot store their part
        // on demand of another rank.
        if !self.is_everywhere(result, opened) || opened.found.facts.is_by_node {
            return Ok(Terms::default());
        }
        let asks = self.connect_nodes(holders.as_ref()).await?;
        let holders = holders.filter(|_| asks.is_some());
        Ok(Terms { holders, asks })
    }

    /// Connects the nodes, unless that was in vain once.
    async fn connect_nodes(&self, holders: Option<&Holders>) -> Result<Option<NodeAsks>> {
        let (open_files, workers) = (&self.engine.open_files, self.engine.workers());
        let tags = [step::NODES, step::CONNECTED].map(|step| self.tags.tag(step));
        // With a directory for stages, users expect system calls to see all writes.
        let may_buffer = self.request.stages.is_none_or(|stages| stages.or_buffers);
        let tried = !open_files.is_unreachable() && may_buffer;
        match NodeAsks::connect(self.transport, tags, holders, workers, tried).await {
            Err(error) if error.class() == ErrorClass::Other => {
                open_files.note_unreachable();
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

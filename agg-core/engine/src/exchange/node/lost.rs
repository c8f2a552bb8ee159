//! After an error: finds the windows that did not reach the file, on each node.

use super::super::step;
use super::NodeAggregation;
use aggio_base::error::Result;
use aggio_comm::node::{Board, Unstored};

/// The windows that each node did not store or send. Collective; all windows are done.
pub(super) async fn everywhere(passage: &NodeAggregation<'_>) -> Result<Vec<Unstored>> {
    let own = passage.ring.unstored();
    if !passage.node().has_others() {
        return Ok(vec![own]);
    }
    let all = passage.meeting.gather(Board::Lost, step::STORED, &own.to_bytes()).await?;
    Ok(Unstored::all_from_bytes(&all))
}

impl NodeAggregation<'_> {
    /// The number of this rank's bytes that are in the file; `lost` has an entry for each node.
    ///
    /// A window is stored as far as this rank's node sent it and its aggregator's node stored it.
    pub(super) fn stored_bytes(&self, lost: &[Unstored]) -> u64 {
        let own = self.node().map().node();
        let mut bytes = self.request.len();
        for window in self.own_windows() {
            let extent = self.windows.extent(window);
            let upto = |node: usize| {
                let upto = lost.get(node).map_or(0, |lost| lost.stored_below(window));
                upto.clamp(extent.offset, extent.end())
            };
            let upto = upto(own).min(upto(self.home(window)));
            let stored = self.request.view.data_before(upto);
            for part in self.parts(extent) {
                let end = part.position + part.len as u64;
                bytes -= end - stored.clamp(part.position, end);
            }
        }
        bytes
    }
}

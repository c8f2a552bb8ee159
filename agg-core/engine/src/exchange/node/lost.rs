//! After an error: finds the windows that did not reach the file, on each node.

use super::super::step;
use super::NodeAggregation;
use super::data::OwnData;
use super::window_plan::WindowPlan;
use aggio_base::error::Result;
use aggio_comm::node::{Board, Unstored};

/// The windows that each node did not store or send. Collective; all windows are done.
pub(super) async fn everywhere(aggregation: &NodeAggregation<'_>) -> Result<Vec<Unstored>> {
    let own = aggregation.ring.unstored();
    if !aggregation.ring.node().has_others() {
        return Ok(vec![own]);
    }
    let all = aggregation.meeting.gather(Board::Lost, step::STORED, &own.to_bytes()).await?;
    Ok(Unstored::all_from_bytes(&all))
}

/// The number of this rank's bytes that are in the file; `lost` has an entry for each node.
///
/// A window is stored as far as this rank's node sent it and its aggregator's node stored it.
pub(super) fn stored_bytes(plan: &WindowPlan<'_>, own: &OwnData<'_>, lost: &[Unstored]) -> u64 {
    let (view, mut bytes) = (own.request().view, own.request().len());
    for window in plan.own_windows() {
        let extent = plan.extent(window);
        let upto = |node: usize| {
            let upto = lost.get(node).map_or(0, |lost| lost.stored_below(window));
            upto.clamp(extent.offset, extent.end())
        };
        let upto = upto(plan.node()).min(upto(plan.home(window)));
        let stored = view.data_before(upto);
        for part in own.parts(extent) {
            let end = part.position + part.len as u64;
            bytes -= end - stored.clamp(part.position, end);
        }
    }
    bytes
}

//! Zeros of all ranks behind the end of a file, as fill values are: the file becomes longer, and
//! they are not written.
//!
//! One rank alone cannot do so: once another rank's part has made the file longer, its own part is
//! no longer behind the end, and few network file systems report which bytes are stored there.

use super::speculative::are_together;
use super::{Direction, Request, Scene, step};
use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::meeting::Meeting;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use aggio_comm::task::place::on_caller;
use aggio_plan::plan::Total;
use aggio_plan::plan::cost::Costs;
use aggio_store::driver::Outcome;

/// Calls with fewer bytes take less time to write than a query for the end of the file.
const LEAST: u64 = 64 << 10;

/// One asks for the end of the file, one for the room that there is, and one moves the end.
const REQUESTS: u64 = 3;

/// Bytes of a request where requests take long: more are written by several.
const WINDOW: u64 = 1 << 20;

/// Whether a rank brings zeros that need not be stored.
pub(super) fn are_zeros(
    scene: &Scene<'_>,
    direction: Direction,
    request: &Result<Request<'_>>,
) -> bool {
    let Ok(request) = request else { return false };
    let is_plain = scene.elides && scene.atomic.is_none() && !scene.logs;
    direction == Direction::Write && is_plain && request.len() > 0 && request.memory.is_zero()
}

/// Whether all of a call may be zeros behind the end, and writing them takes longer than finding
/// out; alike on all ranks. Gaps are to get no storage.
pub(super) fn may_be_behind_end(total: &Total) -> bool {
    total.zeros && total.is_dense() && total.bytes >= LEAST.max(worth_asking_from(total.figures))
}

/// Bytes from which on writing takes longer than [`REQUESTS`].
pub(crate) fn worth_asking_from(figures: Costs) -> u64 {
    figures.request_in_bytes().min(WINDOW).saturating_mul(REQUESTS)
}

/// Lets the file end where the call does, if all of that is behind its end; alike on all ranks.
/// Boxed, for few calls are such zeros.
pub(super) fn extend<'a>(
    scene: Scene<'a>,
    tags: &'a TagBlock,
    request: Request<'a>,
    total: &Total,
    meeting: &'a Meeting<'_>,
) -> BoxFuture<'a, Result<Option<Outcome>>> {
    Box::pin(extend_together(scene, tags, request, total.hull, meeting))
}

/// Whether all nodes find that the file ends at or before the start of `hull`. The file system of a
/// node may buffer bytes there until they are synchronised.
async fn is_behind_all_ends(scene: &Scene<'_>, tags: &TagBlock, hull: Extent) -> Result<bool> {
    if are_together(scene.transport) {
        return Ok(true);
    }
    let mine = !scene.driver.knows_bytes_behind(hull.offset);
    let both = |one: &[u8], other: &[u8]| vec![u8::from(one == [1] && other == [1])];
    let tag = tags.tag(step::FILL);
    let all = group::allreduce(scene.transport, tag, vec![u8::from(mine)], both).await?;
    Ok(all == [1])
}

async fn extend_together(
    scene: Scene<'_>,
    tags: &TagBlock,
    request: Request<'_>,
    hull: Extent,
    meeting: &Meeting<'_>,
) -> Result<Option<Outcome>> {
    on_caller().await;
    if !is_behind_all_ends(&scene, tags, hull).await? {
        return Ok(None);
    }
    let Scene { transport, driver, counters, aggregators, .. } = scene;
    let mine = match transport.rank() == aggregators[0] {
        true => vec![u8::from(driver.extend_with_zeros(hull, counters))],
        false => Vec::new(),
    };
    let told = group::bcast(transport, tags.tag(step::FILL), aggregators[0], mine).await?;
    if told != [1] {
        return Ok(None);
    }
    let bytes = request.len();
    if bytes > 0 {
        Counters::add(&counters.reserved, request.view.pieces(request.position, bytes));
        Counters::add(&counters.bytes_reserved, bytes);
    }
    Ok(Some(Outcome { bytes, result: meeting.agree(step::AGREE, Ok(())).await }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_zeros_are_written_where_finding_out_takes_longer() {
        let asks = |bytes, latency| {
            let figures = Costs::new(latency, 1 << 20);
            may_be_behind_end(&Total { zeros: true, bytes, ranks: 2, figures, ..Total::default() })
        };
        // A request takes as long as a MiB.
        assert_eq!((asks(2 << 20, 1 << 20), asks(3 << 20, 1 << 20)), (false, true));
        assert_eq!((asks(2 << 20, 1 << 30), asks(3 << 20, 1 << 30)), (false, true));
        assert_eq!((asks(65535, 1000), asks(65536, 1000)), (false, true));
        assert!(!may_be_behind_end(&Total { bytes: 1 << 30, ..Total::default() }));
    }
}

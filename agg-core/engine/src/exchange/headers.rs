//! Sends each rank's request to the aggregators: its view and a range of the view's data.

use super::plan_cache::Known;
use super::share::Share;
use super::{Call, step};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::task::{BoxFuture, join_all};
use aggio_types::view::View;
use std::borrow::Cow;
use std::sync::PoisonError;

/// Views longer than this (encoded) are sent to one aggregator after the other, not to all at once.
const LONG_VIEW: usize = 64 << 10;

/// One rank that has, or may have, data in an aggregator's domain.
pub(super) struct Peer<'a> {
    pub(super) rank: usize,
    pub(super) view: Cow<'a, View>,
    pub(super) share: Share,
}

/// Sends this rank's header to the aggregators of all foreign domains that it touches; nothing in a
/// repeated call, where they have it already.
pub(super) async fn send(call: &Call<'_>) -> Result<()> {
    if call.repeat.is_some() {
        return Ok(());
    }
    let mut header = Vec::new();
    header.extend_from_slice(&call.request.position.to_le_bytes());
    header.extend_from_slice(&call.request.len().to_le_bytes());
    header.extend_from_slice(&call.request.view.encode());
    let to = |domain: usize| {
        let (transport, tag) = (call.scene.transport, call.tag(step::HEADERS));
        Counters::add(&call.scene.counters.metadata_bytes, header.len() as u64);
        group::send_framed(transport, call.scene.aggregators[domain], tag, &header)
    };
    if header.len() > LONG_VIEW {
        for domain in call.foreign_domains() {
            to(domain).await?;
        }
        return Ok(());
    }
    let sends = call.foreign_domains().map(|domain| Box::pin(to(domain)) as BoxFuture<'_, _>);
    join_all(sends.collect()).await.into_iter().collect()
}

/// Collects the headers of all ranks that touch `domain`, which is this rank's, in rank order.
pub(super) async fn receive<'a>(call: &Call<'a>, domain: usize) -> Result<Vec<Peer<'a>>> {
    if let Some(peers) = remembered(call, domain) {
        return Ok(peers);
    }
    let touches = |rank: &usize| call.domains.touched_by(call.all[*rank].span).contains(&domain);
    let peers = (0..call.all.len()).filter(touches).map(|rank| {
        let peer = async move {
            if rank == call.rank() {
                Ok(own(call, domain))
            } else {
                other(call, domain, rank).await
            }
        };
        Box::pin(peer) as BoxFuture<'_, _>
    });
    join_all(peers.collect()).await.into_iter().collect()
}

/// The headers as they were in the past call that this one repeats.
fn remembered<'a>(call: &Call<'a>, domain: usize) -> Option<Vec<Peer<'a>>> {
    let repeat = call.repeat?;
    let mut peers: Vec<Peer<'a>> = Vec::new();
    for known in repeat.peers(&call.domains)? {
        let view = known.view.moved(repeat.shift());
        let share = Share::new(&view, known.position, known.bytes, call.windows(domain));
        peers.push(Peer { rank: known.rank, view: Cow::Owned(view), share });
    }
    let rank = call.rank();
    if call.domains.touched_by(call.all[rank].span).contains(&domain) {
        let place = peers.partition_point(|peer| peer.rank < rank);
        peers.insert(place, own(call, domain));
    }
    Some(peers)
}

fn own<'a>(call: &Call<'a>, domain: usize) -> Peer<'a> {
    let request = call.request;
    let len = request.len();
    let share = Share::new(request.view, request.position, len, call.windows(domain));
    Peer { rank: call.rank(), view: Cow::Borrowed(request.view), share }
}

async fn other<'a>(call: &Call<'_>, domain: usize, rank: usize) -> Result<Peer<'a>> {
    let header = group::recv_framed(call.scene.transport, rank, call.tag(step::HEADERS)).await?;
    let broken = || Error::new(ErrorClass::Intern, "a request without its range").with_rank(rank);
    let (position, rest) = header.split_first_chunk().ok_or_else(broken)?;
    let (len, view) = rest.split_first_chunk().ok_or_else(broken)?;
    let (position, len) = (u64::from_le_bytes(*position), u64::from_le_bytes(*len));
    let view = View::decode(view)?;
    let mut learned = call.learned.lock().unwrap_or_else(PoisonError::into_inner);
    learned.push(Known::new(rank, &view, position, len));
    drop(learned);
    let share = Share::new(&view, position, len, call.windows(domain));
    Ok(Peer { rank, view: Cow::Owned(view), share })
}

/// The next window in which any of `peers` has data, and the peers (by place) that have.
pub(super) fn next_window(peers: &[Peer<'_>]) -> Vec<usize> {
    let mut first = u64::MAX;
    let mut places = Vec::new();
    for (place, peer) in peers.iter().enumerate() {
        let Some(window) = peer.share.next_window(&peer.view) else { continue };
        if window < first {
            first = window;
            places.clear();
        }
        if window == first {
            places.push(place);
        }
    }
    places
}

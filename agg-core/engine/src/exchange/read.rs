//! The two phases of a collective read: aggregators read, the others get their pieces.

use super::coverage::Coverage;
use super::flight::Flight;
use super::headers::{self, Peer};
use super::share::{Part, Share};
use super::{Call, agree, place, step};
use aggio_base::allocate::{no_memory, zeros};
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::task::{BoxFuture, join, yield_now};
use aggio_store::driver::Outcome;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Gaps up to this many bytes are read along: less time than another system call takes.
const GAP: usize = 16 << 10;

/// Bytes of this rank that arrived from one domain.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    wanted: u64,
    got: u64,
}

/// Carries out this rank's part of the read.
pub(super) async fn run(call: &Call<'_>) -> Outcome {
    let (received, (own, served)) = join(receive(call), aggregate(call)).await;
    let (mut arrived, received) = match received {
        Ok(arrived) => (arrived, Ok(())),
        Err(error) => (BTreeMap::new(), Err(error)),
    };
    if let Some(domain) = call.own_domain() {
        arrived.insert(domain, own);
    }
    // Data counts up to the first that is missing: domains are in file order, as is the data.
    let mut bytes = 0;
    for Arrived { wanted, got } in arrived.into_values() {
        bytes += got;
        if got < wanted {
            break;
        }
    }
    Outcome { bytes, result: agree(call.scene, call.tags, served.and(received)).await }
}

/// Gets this rank's data from the aggregators of other ranks.
async fn receive(call: &Call<'_>) -> Result<BTreeMap<usize, Arrived>> {
    let request = call.request;
    headers::send(call).await?;
    let mut arrived = BTreeMap::new();
    let mut shares: Vec<(usize, Share)> = Vec::new();
    let mut queue = BinaryHeap::new();
    for domain in call.foreign_domains() {
        let len = request.len();
        let share = Share::new(request.view, request.position, len, call.windows(domain));
        if let Some(window) = share.next_window(request.view) {
            arrived.insert(domain, Arrived { wanted: share.left(), got: 0 });
            queue.push(Reverse((window, shares.len())));
            shares.push((domain, share));
        }
    }
    let mut flight: Flight<'_, Result<(usize, u64)>> = Flight::new(call.budget());
    let mut count = |message: Result<(usize, u64)>| -> Result<()> {
        let (domain, got) = message?;
        arrived.entry(domain).or_default().got += got;
        Ok(())
    };
    while let Some(Reverse((_, place))) = queue.pop() {
        let (domain, share) = &mut shares[place];
        let from = call.scene.aggregators[*domain];
        let Some(part) = share.take(request.view) else { continue };
        while !flight.has_room(from, part.len) {
            flight.next().await.map_or(Ok(()), &mut count)?;
        }
        flight.add(from, part.len, start(call, *domain, part));
        queue.extend(share.next_window(request.view).map(|window| Reverse((window, place))));
    }
    while let Some(message) = flight.next().await {
        count(message)?;
    }
    Ok(arrived)
}

/// Starts to receive one part; its bytes go to the caller's memory when they come.
fn start<'b>(call: &'b Call<'_>, domain: usize, part: Part) -> BoxFuture<'b, Result<(usize, u64)>> {
    let from = call.scene.aggregators[domain];
    let message = call.scene.transport.recv(from, call.tag(step::DATA), part.len);
    Box::pin(async move {
        let bytes = message.await?;
        call.request.memory.scatter(part.position - call.request.position, &bytes);
        Ok((domain, bytes.len() as u64))
    })
}

/// Reads this rank's own domain, if it has one, and serves it; returns this rank's own bytes and
/// the result.
///
/// After a failed read it continues with messages without data, so that no rank waits forever.
async fn aggregate(call: &Call<'_>) -> (Arrived, Result<()>) {
    let Some(domain) = call.own_domain() else { return (Arrived::default(), Ok(())) };
    let mut peers = match headers::receive(call, domain).await {
        Ok(peers) => peers,
        Err(error) => return (Arrived::default(), Err(error)),
    };
    let own = peers.iter().find(|peer| peer.rank == call.rank());
    let mut own = Arrived { wanted: own.map_or(0, |peer| peer.share.left()), got: 0 };
    let mut source = Source::new(call, call.windows(domain).most());
    let mut flight: Flight<'_, Result<()>> = Flight::new(call.budget());
    let mut result = Ok(());
    loop {
        let places = headers::next_window(&peers);
        let parts: Vec<(usize, Part)> = places
            .into_iter()
            .filter_map(|place| {
                let peer = &mut peers[place];
                peer.share.take(&peer.view).map(|part| (place, part))
            })
            .collect();
        if parts.is_empty() {
            break;
        }
        source.load(&peers, &parts);
        for (place, part) in parts {
            let peer = &peers[place];
            let valid = source.valid(peer, part);
            if peer.rank == call.rank() {
                match place::pack(&peer.view, part, valid, &source.bytes) {
                    Ok(packed) => {
                        let at = part.position - call.request.position;
                        call.request.memory.scatter(at, &packed);
                        own.got += valid as u64;
                    }
                    Err(error) => result = result.and(Err(error)),
                }
                continue;
            }
            while !flight.has_room(peer.rank, part.len) {
                let sent = flight.next().await.unwrap_or(Ok(()));
                result = result.and(sent);
            }
            // The rank waits for a message, if only for an empty one.
            let packed = place::pack(&peer.view, part, valid, &source.bytes);
            let (message, packed) = packed.map_or_else(|e| (Vec::new(), Err(e)), |it| (it, Ok(())));
            result = result.and(packed);
            Counters::add(&call.scene.counters.messages, 1);
            Counters::add(&call.scene.counters.message_bytes, message.len() as u64);
            let sent = call.scene.transport.send(peer.rank, call.tag(step::DATA), message);
            flight.add(peer.rank, part.len, sent);
        }
        // This rank's own receives from other aggregators get a turn.
        yield_now().await;
    }
    while let Some(sent) = flight.next().await {
        result = result.and(sent);
    }
    (own, source.result.and(result))
}

/// The window that was read.
struct Source<'a, 'b> {
    call: &'b Call<'a>,
    bytes: Vec<u8>,
    coverage: Option<Coverage>,
    /// Bytes from here on do not exist or could not be read.
    end: u64,
    result: Result<()>,
}

impl<'a, 'b> Source<'a, 'b> {
    fn new(call: &'b Call<'a>, most: usize) -> Self {
        let coverage = Coverage::new(most);
        let (bytes, end, result) = match zeros(most) {
            Ok(bytes) if coverage.is_some() => (bytes, u64::MAX, Ok(())),
            _ => (Vec::new(), 0, Err(no_memory(most))),
        };
        Self { call, bytes, coverage, end, result }
    }

    /// Reads the bytes of `parts`, which are all of one window.
    fn load(&mut self, peers: &[Peer<'_>], parts: &[(usize, Part)]) {
        let (Some((_, first)), Some(coverage)) = (parts.first(), &mut self.coverage) else {
            return;
        };
        let window = first.window.offset;
        if self.end <= window {
            return;
        }
        for (place, part) in parts {
            place::mark(&peers[*place].view, *part, coverage);
        }
        let scene = self.call.scene;
        for run in coverage.runs(GAP) {
            let (offset, len) = (window + run.start as u64, run.len() as u64);
            let outcome = scene.driver.read_contig(&mut self.bytes[run], offset, scene.counters);
            if outcome.bytes < len || outcome.result.is_err() {
                self.end = offset + outcome.bytes;
                self.result = outcome.result;
                break;
            }
        }
        coverage.clear();
    }

    /// How many bytes of `part` were read, from its first on.
    fn valid(&self, peer: &Peer<'_>, part: Part) -> usize {
        let upto = peer.view.data_before(self.end).saturating_sub(part.position);
        usize::try_from(upto).map_or(part.len, |upto| upto.min(part.len))
    }
}

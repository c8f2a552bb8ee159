//! The two phases of a collective write: senders pack, aggregators assemble and store.

use super::coverage::Coverage;
use super::flight::Flight;
use super::headers::{self, Peer};
use super::share::{Part, Share};
use super::{Call, agree, place, step};
use aggio_base::allocate::{no_memory, zeros};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::task::{BoxFuture, join, yield_now};
use aggio_store::driver::Outcome;
use aggio_store::independent;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How far an aggregator came: all of its domain below this offset is stored.
const ALL: u64 = u64::MAX;

/// Carries out this rank's part of the write.
pub(super) async fn run(call: &Call<'_>) -> Outcome {
    let (sent, (stored, kept)) = join(send(call), aggregate(call)).await;
    let result = agree(call.scene, call.tags, kept.and(sent)).await;
    let bytes = match &result {
        Ok(()) => call.request.len(),
        Err(_) => stored_bytes(call, stored).await.unwrap_or(0),
    };
    Outcome { bytes, result }
}

/// Sends this rank's data to the aggregators of other ranks, window by window.
async fn send(call: &Call<'_>) -> Result<()> {
    let view = call.request.view;
    headers::send(call).await?;
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut shares: Vec<(usize, Share)> = Vec::new();
    for domain in call.foreign_domains() {
        let share = share_of(call, domain);
        if let Some(window) = share.next_window(view) {
            queue.push(Reverse((window, shares.len())));
            shares.push((domain, share));
        }
    }
    let (mut flight, mut result) = (Flight::new(call.budget()), Ok(()));
    // All domains' first windows, then all second ones, ...: the order that `Flight` demands.
    while let Some(Reverse((_, place))) = queue.pop() {
        let (domain, share) = &mut shares[place];
        let to = call.scene.aggregators[*domain];
        let Some(part) = share.take(view) else { continue };
        while !flight.has_room(to, part.len) {
            let sent = flight.next().await.unwrap_or(Ok(()));
            result = result.and(sent);
        }
        flight.add(to, part.len, start(call, to, part));
        queue.extend(share.next_window(view).map(|window| Reverse((window, place))));
    }
    while let Some(sent) = flight.next().await {
        result = result.and(sent);
    }
    result
}

fn share_of(call: &Call<'_>, domain: usize) -> Share {
    let request = call.request;
    Share::new(request.view, request.position, request.len(), call.windows(domain))
}

/// Packs one part and starts to send it. Without memory for it an empty message goes out: the
/// aggregator waits for one.
fn start(call: &Call<'_>, to: usize, part: Part) -> BoxFuture<'static, Result<()>> {
    let (bytes, packed) = match call.request.packed(part.position, part.len) {
        Ok(bytes) => (bytes.into_owned(), Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    Counters::add(&call.scene.counters.messages, 1);
    Counters::add(&call.scene.counters.message_bytes, bytes.len() as u64);
    let sent = call.scene.transport.send(to, call.tag(step::DATA), bytes);
    Box::pin(async move { sent.await.and(packed) })
}

/// One part that an aggregator expects: from itself, or in a message.
struct Expected {
    peer: usize,
    part: Part,
    message: Option<BoxFuture<'static, Result<Vec<u8>>>>,
}

/// Stores this rank's own domain, if it has one; returns how far it came, and the result.
///
/// After a failed write it keeps receiving, and discards, so that no rank waits for a failed one.
async fn aggregate(call: &Call<'_>) -> (u64, Result<()>) {
    let Some(domain) = call.own_domain() else { return (ALL, Ok(())) };
    let mut peers = match headers::receive(call, domain).await {
        Ok(peers) => peers,
        Err(error) => return (0, Err(error)),
    };
    let mut assembly = Assembly::new(call, call.windows(domain).most());
    let mut expected: VecDeque<Expected> = VecDeque::new();
    let mut todo: VecDeque<usize> = VecDeque::new();
    let mut waiting = 0;
    loop {
        // Receives are posted ahead in the order in which they are used, within the budget.
        while expected.is_empty() || waiting < call.budget() {
            if todo.is_empty() {
                todo = headers::next_window(&peers).into();
            }
            let Some(peer) = todo.pop_front() else { break };
            let Some(next) = expect(call, &mut peers, peer) else { continue };
            waiting += next.part.len;
            expected.push_back(next);
        }
        let Some(next) = expected.pop_front() else { break };
        assembly.open(next.part).await;
        waiting -= next.part.len;
        assembly.add(&peers[next.peer], next).await;
    }
    assembly.flush();
    (assembly.stored, assembly.result)
}

/// Takes a peer's next part and starts to receive it.
fn expect(call: &Call<'_>, peers: &mut [Peer<'_>], place: usize) -> Option<Expected> {
    let peer = &mut peers[place];
    let part = peer.share.take(&peer.view)?;
    let receive = || call.scene.transport.recv(peer.rank, call.tag(step::DATA), part.len);
    let message = (peer.rank != call.rank()).then(receive);
    Some(Expected { peer: place, part, message })
}

/// The window that is being put together.
struct Assembly<'a, 'b> {
    call: &'b Call<'a>,
    window: Option<Part>,
    bytes: Vec<u8>,
    coverage: Option<Coverage>,
    /// All data of the domain below this offset is stored.
    stored: u64,
    result: Result<()>,
}

impl<'a, 'b> Assembly<'a, 'b> {
    fn new(call: &'b Call<'a>, most: usize) -> Self {
        let (bytes, coverage) = (zeros(most), Coverage::new(most));
        let mut new =
            Self { call, window: None, bytes: vec![], coverage, stored: ALL, result: Ok(()) };
        match bytes {
            Ok(bytes) if new.coverage.is_some() => new.bytes = bytes,
            _ => new.fail(0, no_memory(most)),
        }
        new
    }

    /// From now on everything is discarded.
    fn fail(&mut self, stored: u64, error: Error) {
        if self.result.is_ok() {
            (self.stored, self.result) = (stored, Err(error));
        }
    }

    /// Turns to the window of `part`; stores the one before, if it is another.
    async fn open(&mut self, part: Part) {
        if self.window.is_some_and(|open| open.window != part.window) {
            self.flush();
            // This rank's own messages to other aggregators get a turn.
            yield_now().await;
        }
        self.window = Some(part);
    }

    /// Puts one part at its place. Parts come in rank order: where they overlap, the highest rank
    /// wins, as if the ranks had written one after the other.
    async fn add(&mut self, peer: &Peer<'_>, expected: Expected) {
        let Expected { part, message, .. } = expected;
        let packed = match message {
            None => match self.call.request.packed(part.position, part.len) {
                Ok(bytes) => bytes,
                Err(error) => return self.fail(part.window.offset, error),
            },
            Some(message) => match message.await {
                Ok(bytes) if bytes.len() == part.len => Cow::Owned(bytes),
                Ok(bytes) if bytes.is_empty() => {
                    let error = no_memory(part.len).with_rank(peer.rank);
                    return self.fail(part.window.offset, error);
                }
                Ok(bytes) => {
                    let detail = format!("{} bytes came, expected {}", bytes.len(), part.len);
                    let error = Error::new(ErrorClass::Intern, detail).with_rank(peer.rank);
                    return self.fail(part.window.offset, error);
                }
                Err(error) => return self.fail(part.window.offset, error),
            },
        };
        let (true, Some(coverage)) = (self.result.is_ok(), &mut self.coverage) else { return };
        place::unpack(&peer.view, part, &packed, &mut self.bytes, coverage);
    }

    /// Stores the runs of the window; gaps between them belong to other ranks.
    fn flush(&mut self) {
        let (Some(open), Some(coverage)) = (self.window.take(), &mut self.coverage) else { return };
        let mut failed = None;
        if self.result.is_ok() {
            let scene = self.call.scene;
            let _lock = scene.lock_to_store(open.window);
            let (start, runs) = (open.window.offset, coverage.runs(0));
            let outcome =
                independent::write_runs(scene.driver, start, &self.bytes, runs, scene.counters);
            failed = outcome
                .result
                .err()
                .map(|error| (error.extent().map_or(start, |rest| rest.offset), error));
        }
        coverage.clear();
        if let Some((stored, error)) = failed {
            self.fail(stored, error);
        }
    }
}

/// After an error: how many of this rank's bytes are in the file. Collective.
async fn stored_bytes(call: &Call<'_>, stored: u64) -> Result<u64> {
    let tag = call.tag(step::STORED);
    let all = group::allgather(call.scene.transport, tag, &stored.to_le_bytes()).await?;
    let stored_by = |rank: usize| {
        let word = all.get(8 * rank..8 * rank + 8).and_then(|word| word.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let request = call.request;
    let mut bytes = 0;
    for domain in call.domains.touched_by(call.all[call.rank()].span) {
        let extent = call.domains.extent(domain);
        let end = request.position.saturating_add(request.len());
        let upto = stored_by(call.scene.aggregators[domain]).clamp(extent.offset, extent.end());
        let before = |offset| request.view.data_before(offset).clamp(request.position, end);
        bytes += before(upto) - before(extent.offset);
    }
    Ok(bytes)
}

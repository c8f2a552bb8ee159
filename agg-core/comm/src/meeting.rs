//! The first and the last step of a collective operation: all ranks exchange their arguments, and
//! all end with one result.
//!
//! The ranks of a node meet in its memory; then the leaders of the nodes, the lowest ranks,
//! exchange the combined arguments of their nodes in messages, and leave those of all nodes in the
//! memory. Without memory all ranks exchange messages.

use crate::group::{self, Ranks};
use crate::node::{Board, Map, Met, Node, Operation};
use crate::tags::TagBlock;
use crate::task::BoxFuture;
use crate::task::place::on_caller;
use crate::transport::Transport;
use aggio_base::error::{Error, ErrorClass, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The step whose tag announces the next operation.
const NEXT: u32 = TagBlock::WIDTH - 1;

/// One collective operation. At most one for each [`TagBlock`].
pub struct Meeting<'a> {
    transport: &'a dyn Transport,
    tags: &'a TagBlock,
    operation: Option<Operation<'a>>,
}

/// Meetings of this process to which all ranks have come, and which have not ended.
static COMPLETE: AtomicUsize = AtomicUsize::new(0);

/// How many collective operations of this process all their ranks are at: those end without
/// anything that a rank has yet to begin.
pub fn complete() -> usize {
    COMPLETE.load(Ordering::Relaxed)
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        COMPLETE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Combined arguments of the ranks in a meeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Six numbers, with a meaning for each operation.
    pub numbers: [u64; 6],
    /// Eight bits, with a meaning for each operation.
    pub flags: u8,
    /// The number of a past operation that all of these ranks repeat, below 2^48; 0 is none.
    pub past: u64,
    /// The kind of operation that the first of these ranks is in.
    kind: u8,
    /// The first rank that is in another.
    stranger: Option<u32>,
}

/// The result of a meeting on a rank.
#[derive(Debug)]
pub struct Heard {
    /// The parts of the ranks of this node, end to end, in rank order; of all ranks if they share
    /// no memory.
    pub members: Vec<u8>,
    /// The combined arguments of each node; of all ranks together if they share no memory.
    pub nodes: Vec<Brought>,
}

impl Brought {
    /// Number of bytes of the wire form.
    const WIRE_BYTES: usize = 64;

    /// To be completed by the meeting with kinds of operations.
    pub fn new(numbers: [u64; 6], flags: u8) -> Self {
        Self { numbers, flags, past: 0, kind: 0, stranger: None }
    }

    /// The same of ranks that all repeat operation `past`.
    pub fn repeating(self, past: u64) -> Self {
        Self { past, ..self }
    }

    fn to_bytes(self) -> [u8; Self::WIRE_BYTES] {
        let mut bytes = [0; Self::WIRE_BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip(self.numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        (bytes[48], bytes[49]) = (self.flags, self.kind);
        bytes[50..56].copy_from_slice(&self.past.to_le_bytes()[..6]);
        let stranger = self.stranger.map_or(0, |rank| u64::from(rank) + 1);
        bytes[56..].copy_from_slice(&stranger.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let number = |i: usize| bytes[8 * i..8 * i + 8].try_into().map_or(0, u64::from_le_bytes);
        let stranger = number(7).checked_sub(1).and_then(|rank| u32::try_from(rank).ok());
        let numbers = std::array::from_fn(number);
        let (flags, kind, past) = (bytes[48], bytes[49], number(6) >> 16);
        Self { numbers, flags, past, kind, stranger }
    }

    fn all_from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.chunks_exact(Self::WIRE_BYTES).map(Self::from_bytes).collect()
    }
}

impl<'a> Meeting<'a> {
    fn new(
        transport: &'a dyn Transport,
        tags: &'a TagBlock,
        operation: Option<Operation<'a>>,
    ) -> Self {
        COMPLETE.fetch_add(1, Ordering::Relaxed);
        Self { transport, tags, operation }
    }

    /// Waits until all ranks are at the operation of `tags`, and exchanges `mine`. The last byte of
    /// `mine` holds the kind of the operation in its upper six bits; `sum` combines the parts of
    /// several ranks. If all ranks share one memory, `over` says for their parts whether nothing is
    /// left to do: then the caller may only drop the meeting.
    ///
    /// # Errors
    /// `Other`, on all ranks, if they are in operations of different kinds.
    pub async fn hold(
        transport: &'a dyn Transport,
        tags: &'a TagBlock,
        step: u32,
        mine: &[u8],
        sum: impl Fn(&[u8]) -> Brought + Send,
        over: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<(Self, Heard)> {
        tags.ready().await;
        let (operation, members, nodes) = match transport.node() {
            None => {
                on_caller().await;
                let members = group::allgather(transport, tags.tag(step), mine).await?;
                let all = of_one_kind(&members, mine.len(), sum(&members), |place| place);
                (None, members, vec![all])
            }
            Some(node) => {
                let mut met = node.meet(tags.id(), mine).await?;
                let members = std::mem::take(&mut met.parts);
                let rank = |place: usize| node.members()[place];
                let here = of_one_kind(&members, mine.len(), sum(&members), rank);
                let over = here.stranger.is_none() && over(&members);
                let (operation, nodes) = match (node.has_others(), over) {
                    (true, _) => {
                        let met = meet_others(transport, node, met, (tags, step), here).await?;
                        (Some(met.0), met.1)
                    }
                    (false, false) => (Some(node.claim(met).await?), vec![here]),
                    (false, true) => {
                        node.dismiss(met);
                        (None, vec![here])
                    }
                };
                (operation, members, nodes)
            }
        };
        let meeting = Self::new(transport, tags, operation);
        meeting.check_kinds(kind_of(mine), &nodes)?;
        Ok((meeting, Heard { members, nodes }))
    }

    /// The operation in the memory of the node.
    pub fn operation(&self) -> Option<&Operation<'a>> {
        self.operation.as_ref()
    }

    /// The tag of a step of the operation.
    pub fn tag(&self, step: u32) -> u32 {
        self.tags.tag(step)
    }

    /// The leaders of the nodes if this rank is one and there are several.
    pub(crate) fn leaders(&self) -> Option<Leaders<'_>> {
        let node = self.operation.as_ref()?.node();
        let speaks = node.has_others() && node.is_leader();
        speaks.then(|| Leaders::new(self.transport, node.map()))
    }

    /// Whether the steps of this operation take messages: not all ranks share one memory.
    pub fn needs_messages(&self) -> bool {
        self.operation.is_none() || self.has_others()
    }

    /// Whether the ranks share memory, but not all of them the same.
    fn has_others(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.node().has_others())
    }

    /// Gives the ranks of all nodes the `mine` of each node, as its leader has it, in the order of
    /// nodes, end to end. Once for each board.
    pub async fn gather(&self, board: Board, step: u32, mine: &[u8]) -> Result<Vec<u8>> {
        let Some(operation) = &self.operation else { return Ok(mine.to_vec()) };
        let Some(leaders) = self.leaders() else { return operation.published(board).await };
        let all = group::allgather(&leaders, self.tags.tag(step), mine).await?;
        operation.publish(board, &all);
        Ok(all)
    }

    fn check_kinds(&self, kind: u8, nodes: &[Brought]) -> Result<()> {
        let leader = |node: usize| match &self.operation {
            Some(operation) => operation.node().map().leaders()[node],
            None => 0,
        };
        let other = nodes.iter().enumerate().find_map(|(number, node)| {
            let first = (node.kind != kind).then(|| leader(number));
            first.or(node.stranger.map(|rank| rank as usize))
        });
        match other {
            None => Ok(()),
            Some(other) => Err(different_operations(self.transport.rank(), other)),
        }
    }

    /// Ends with the result of the lowest rank that failed. At most once.
    pub async fn agree(&self, step: u32, local: Result<()>) -> Result<()> {
        let tag = self.tags.tag(step);
        let Some(operation) = &self.operation else {
            return group::agree(self.transport, tag, local).await;
        };
        if !self.has_others() {
            return operation.agree(local).await;
        }
        let Some(leaders) = self.leaders() else {
            operation.end(local, false).await?;
            return operation.verdict().await;
        };
        // Other nodes receive the end of a member as any other failure.
        let ended = operation.end(local, true).await;
        let failed = ended.unwrap_or_else(|e| Some((e.rank().unwrap_or(0), e)));
        let all = group::agree_on(&leaders, tag, failed).await;
        operation.pronounce(&all);
        all
    }
}

/// Claims the place of an operation that all ranks of this node have begun, once those of all nodes
/// have; returns the combined arguments of each node.
///
/// Several operations may be under way, and the memory of a node has room for a few. The first node
/// decides which is next, so that no two nodes wait for each other.
async fn meet_others<'a>(
    transport: &'a dyn Transport,
    node: &'a Node,
    met: Met,
    (tags, step): (&TagBlock, u32),
    here: Brought,
) -> Result<(Operation<'a>, Vec<Brought>)> {
    on_caller().await;
    if !node.is_leader() {
        let operation = node.follow(met).await?;
        let news = operation.published(Board::News).await?;
        return Ok((operation, Brought::all_from_bytes(&news)));
    }
    let leaders = Leaders::new(transport, node.map());
    let news = group::allgather(&leaders, tags.tag(step), &here.to_bytes()).await?;
    let first = node.map().node() == 0;
    if !first {
        group::bcast(&leaders, tags.tag(NEXT), 0, vec![]).await?;
    }
    let operation = node.claim(met).await?;
    if first {
        group::bcast(&leaders, tags.tag(NEXT), 0, vec![]).await?;
    }
    operation.publish(Board::News, &news);
    Ok((operation, Brought::all_from_bytes(&news)))
}

/// Completes `sum` with the kinds of the parts; `rank` maps the place of a part to its rank.
fn of_one_kind(parts: &[u8], len: usize, sum: Brought, rank: impl Fn(usize) -> usize) -> Brought {
    let mut kinds = parts.chunks_exact(len.max(1)).map(kind_of);
    let kind = kinds.next().unwrap_or(0);
    let place = kinds.position(|other| other != kind).map(|place| place + 1);
    let stranger = place.and_then(|place| u32::try_from(rank(place)).ok());
    Brought { kind, stranger, ..sum }
}

fn kind_of(part: &[u8]) -> u8 {
    part.last().map_or(0, |last| last >> 2)
}

/// The ranks are not in the same collective operation; every rank finds out alike.
fn different_operations(rank: usize, other: usize) -> Error {
    let text = format!("ranks {rank} and {other} called different collective operations");
    Error::new(ErrorClass::Other, text)
}

/// The lowest ranks of all nodes, numbered like these.
pub(crate) struct Leaders<'a> {
    transport: &'a dyn Transport,
    map: &'a Map,
}

impl<'a> Leaders<'a> {
    fn new(transport: &'a dyn Transport, map: &'a Map) -> Self {
        Self { transport, map }
    }
}

impl Ranks for Leaders<'_> {
    fn rank(&self) -> usize {
        self.map.node()
    }

    fn size(&self) -> usize {
        self.map.leaders().len()
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        self.transport.send(self.map.leaders()[to], tag, bytes)
    }

    fn post(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        self.transport.post(self.map.leaders()[to], tag, bytes)
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        self.transport.recv(self.map.leaders()[from], tag, capacity)
    }
}

//! A transport that counts messages.

use agg_core::Result;
use agg_core::lanes::{Lane, Lanes};
use agg_core::node::Node;
use agg_core::task::BoxFuture;
use agg_core::transport::{
    NodeTable, Nodes, SharedLocks, SharedPointer, ThreadTransport, Transport,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages of all ranks.
#[derive(Default)]
pub(crate) struct Traffic(AtomicU64);

impl Traffic {
    pub(crate) fn messages(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One rank.
pub(crate) struct Watched {
    ranks: Arc<ThreadTransport>,
    traffic: Arc<Traffic>,
}

impl Watched {
    pub(crate) fn new(ranks: Arc<ThreadTransport>, traffic: &Arc<Traffic>) -> Self {
        Self { ranks, traffic: Arc::clone(traffic) }
    }
}

impl Transport for Watched {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn size(&self) -> usize {
        self.ranks.size()
    }

    fn hosts(&self) -> &[String] {
        self.ranks.hosts()
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        self.traffic.0.fetch_add(1, Ordering::Relaxed);
        self.ranks.send(to, tag, bytes)
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        self.ranks.recv(from, tag, capacity)
    }

    fn max_tag(&self) -> u32 {
        self.ranks.max_tag()
    }

    fn idle(&self, waits: u32) {
        self.ranks.idle(waits);
    }

    fn node(&self) -> Option<&Node> {
        self.ranks.node()
    }

    fn lanes(&self) -> &Arc<Lanes> {
        self.ranks.lanes()
    }

    fn next(&self) -> Option<Arc<dyn Transport>> {
        self.ranks.next()
    }

    fn extend(&self) -> BoxFuture<'_, Result<Arc<dyn Transport>>> {
        self.ranks.extend()
    }

    fn pointer(&self, lane: &Lane) -> Option<Arc<dyn SharedPointer>> {
        self.ranks.pointer(lane)
    }

    fn nodes(&self) -> &Nodes {
        self.ranks.nodes()
    }

    fn table(&self) -> Option<Arc<NodeTable>> {
        self.ranks.table()
    }

    fn share_locks(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedLocks>>> {
        self.ranks.share_locks(tag)
    }
}

//! The transport of a file that one process opened alone.

use super::threads::ThreadTransport;
use super::{NodeTable, Nodes, SharedLocks, SharedPointer, Transport};
use crate::lanes::{Lane, Lanes};
use crate::task::BoxFuture;
use aggio_base::Result;
use std::sync::Arc;

/// The transport of a single rank.
pub struct SingleTransport(Arc<ThreadTransport>);

impl SingleTransport {
    /// The only rank, on `host`.
    pub fn new(host: String) -> Self {
        Self(ThreadTransport::only(host))
    }
}

impl Transport for SingleTransport {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn hosts(&self) -> &[String] {
        self.0.hosts()
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        self.0.send(to, tag, bytes)
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        self.0.recv(from, tag, capacity)
    }

    fn max_tag(&self) -> u32 {
        self.0.max_tag()
    }

    fn idle(&self, _waits: u32) {
        // The wait can only be for a lock that another thread of this process holds.
        std::thread::yield_now();
    }

    fn lanes(&self) -> &Arc<Lanes> {
        self.0.lanes()
    }

    fn next(&self) -> Option<Arc<dyn Transport>> {
        self.0.next()
    }

    fn extend(&self) -> BoxFuture<'_, Result<Arc<dyn Transport>>> {
        self.0.extend()
    }

    fn pointer(&self, lane: &Lane) -> Option<Arc<dyn SharedPointer>> {
        self.0.pointer(lane)
    }

    fn nodes(&self) -> &Nodes {
        self.0.nodes()
    }

    fn table(&self) -> Option<Arc<NodeTable>> {
        None
    }

    fn share_locks(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedLocks>>> {
        self.0.share_locks(tag)
    }
}

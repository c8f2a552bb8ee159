//! How the ranks that opened a file communicate.

mod fd_passing;
mod holders;
mod node;
mod nodes;
mod own_lock;
mod ranges;
mod single;
mod table;
pub mod threads;

pub use crate::node::NodeAddress;
pub use fd_passing::{Identity, Offer, Taken};
pub use holders::{Ask, Hold, Holders};
pub use node::{NodeLocks, share_on_node};
pub use nodes::Nodes;
pub use own_lock::try_lock_alone;
pub use ranges::ThreadLocks;
pub use single::SingleTransport;
pub use table::{NodeTable, TablePointer, share_table, share_table_of_node};
pub use threads::ThreadTransport;

use crate::lanes::{Lane, Lanes};
use crate::node::Node;
use crate::task::BoxFuture;
use aggio_base::{Extent, Result};
use std::sync::Arc;

/// The ranks that open files together: numbered, on named hosts, able to exchange bytes.
///
/// An implementation supplies point-to-point messages; collective steps are built on them in
/// `crate::group`. Both `send` and `recv` *start* when they are called, not when the returned
/// future is first polled, and must be polled to their end.
pub trait Transport: Send + Sync {
    /// This process' number, `0..size`.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// Which of the processes that one real process plays this is: only ranks that are threads
    /// differ.
    fn played(&self) -> usize {
        0
    }

    /// The name of the host that each rank runs on, in rank order.
    fn hosts(&self) -> &[String];

    /// Sends `bytes` to rank `to`. Ready when the receiver has matched it, so that a sender that
    /// awaits its sends cannot flood a receiver. A rank may send to itself.
    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>>;

    /// Sends a short message of a collective step, in order with those of [`Transport::send`].
    ///
    /// It may be ready before the receiver has matched it: the steps themselves bound how many
    /// are under way, and need not wait for a word back.
    fn post(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        self.send(to, tag, bytes)
    }

    /// Receives one message of at most `capacity` bytes that `from` sent with `tag`.
    /// Messages between two ranks with equal tags arrive in order.
    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>>;

    /// Largest legal tag, at least 32767.
    fn max_tag(&self) -> u32;

    /// Waits a little, after `waits` polls without progress, while other work may proceed.
    fn idle(&self, waits: u32);

    /// The memory that the ranks of this rank's node share; on all ranks or on none.
    fn node(&self) -> Option<&Node> {
        None
    }

    /// Which messages belong to which file.
    fn lanes(&self) -> &Arc<Lanes>;

    /// The transport of the same ranks that [`Transport::extend`] has made.
    fn next(&self) -> Option<Arc<dyn Transport>>;

    /// Makes another transport of the same ranks, for files that find no free lane on this one;
    /// collective, in the order of the opens. Made once.
    fn extend(&self) -> BoxFuture<'_, Result<Arc<dyn Transport>>>;

    /// The shared file pointers of the file in `lane`, of unknown values; `None`, on all ranks
    /// alike, if the ranks can share none.
    fn pointer(&self, lane: &Lane) -> Option<Arc<dyn SharedPointer>>;

    /// Which ranks run on one node.
    fn nodes(&self) -> &Nodes;

    /// The memory shared by the ranks of this node; `None` if they share none.
    fn table(&self) -> Option<Arc<NodeTable>>;

    /// Locks that all ranks share, which run on one node; collective. `tag` is free for its
    /// messages.
    ///
    /// # Errors
    /// `UnsupportedOperation` and others, on all ranks alike.
    fn share_locks(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedLocks>>>;
}

/// Number of shared file pointers of an open file; one is in force. So many views can be set before
/// all ranks meet.
pub const POINTERS: u32 = 32;

/// File pointers that all ranks of one open share, without any file in a file system. Their numbers
/// are below [`POINTERS`].
pub trait SharedPointer: Send + Sync {
    /// Adds `delta` to a shared file pointer (in etypes) and returns its old value. Atomic.
    fn fetch_add(&self, number: u32, delta: i64) -> Result<i64>;

    /// Reads a shared file pointer.
    fn load(&self, number: u32) -> Result<i64>;

    /// Sets a shared file pointer; the caller orders this against other ranks.
    fn store(&self, number: u32, value: i64) -> Result<()>;
}

/// Locks on ranges of one open file that all its ranks share, without any file in a file system.
pub trait SharedLocks: Send + Sync {
    /// Takes a lock on `extent` if no other holder conflicts, `None` otherwise; held until the
    /// guard is dropped (or the process ends in any way). Used in atomic mode. Engine code waits
    /// for a lock with [`lock`], never by blocking, because the holder may need this thread's
    /// turn at another operation to get on.
    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>>;
}

/// Holds a lock; dropping it releases the lock.
pub trait LockGuard: Send {}

/// Waits for a lock on `extent` of the open that `shared` belongs to, giving other work its turn.
pub async fn lock(
    shared: &dyn SharedLocks,
    extent: Extent,
    exclusive: bool,
) -> Result<Box<dyn LockGuard>> {
    loop {
        if let Some(guard) = shared.try_lock(extent, exclusive)? {
            return Ok(guard);
        }
        crate::task::pause().await;
    }
}

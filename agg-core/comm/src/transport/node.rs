//! Range locks of processes on one node: on an anonymous memory file, without any name.
//!
//! Rank 0 makes a memfd; the others open it as `/proc/PID/fd/N`. Locks on its byte ranges stand for
//! locks on the ranges of the real file, so they work on every file system, and the kernel releases
//! them when a process dies. Each lock has an open file description of its own, so threads of one
//! process exclude each other too and releasing one lock never cuts another that overlaps it.

use super::{LockGuard, SharedLocks, Transport, try_lock_alone};
use crate::group;
use crate::node::{MemoryFile, NodeAddress, open_descriptor};
use aggio_base::error::{Error, ErrorClass};
use aggio_base::{Extent, Result};
use std::sync::Arc;

/// Range locks that processes of one node share.
#[derive(Debug)]
pub struct NodeLocks(MemoryFile);

/// The memory is never read or written, and without bytes no limit of file sizes counts it.
const SIZE: usize = 0;

impl NodeLocks {
    /// New locks.
    ///
    /// # Errors
    /// The system's error.
    pub fn create() -> Result<Self> {
        MemoryFile::create(SIZE).map(Self)
    }

    /// The locks that another process of this node made and still holds.
    ///
    /// # Errors
    /// The system's error; `Intern` if the address is that of something else.
    pub fn open(address: NodeAddress) -> Result<Self> {
        MemoryFile::open(address, SIZE).map(Self)
    }

    /// The arguments of [`NodeLocks::open`] in the other processes.
    pub fn address(&self) -> NodeAddress {
        self.0.address()
    }
}

impl SharedLocks for NodeLocks {
    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        // A second open file description, of this lock alone.
        let descriptor = open_descriptor(self.address())?;
        try_lock_alone(descriptor, extent, exclusive)
            .map_err(|cause| Error::os("fcntl(F_OFD_SETLK)", &cause))
    }
}

/// Makes one [`NodeLocks`] for all ranks, which must run on one node. Collective.
///
/// # Errors
/// On all ranks alike if `/proc` or memory files are not available.
pub async fn share_on_node(transport: &dyn Transport, tag: u32) -> Result<Arc<dyn SharedLocks>> {
    let mut made = None;
    let mut message = Vec::new();
    if transport.rank() == 0 {
        let locks = NodeLocks::create();
        if let Ok(locks) = &locks {
            message = locks.address().to_bytes().to_vec();
        }
        made = Some(locks);
    }
    let message = group::bcast(transport, tag, 0, message).await?;
    let opened = || NodeAddress::from_bytes(&message).and_then(NodeLocks::open);
    let locks = made.unwrap_or_else(opened);
    let local = locks.as_ref().map(drop).map_err(Clone::clone);
    group::agree(transport, tag, local).await?;
    let gone = |_| Error::new(ErrorClass::Intern, "shared memory agreed on but not there");
    Ok(Arc::new(locks.map_err(gone)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::threads::testing::run;

    #[test]
    fn releasing_one_of_two_overlapping_read_locks_keeps_the_other() {
        let shared = NodeLocks::create().expect("memfd");
        let other = NodeLocks::open(shared.address()).expect("/proc");
        let take = |from: &NodeLocks, offset, len, exclusive| {
            from.try_lock(Extent::new(offset, len), exclusive).expect("OFD locks")
        };
        let first = take(&shared, 0, 100, false);
        let second = take(&shared, 50, 100, false);
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert!(take(&other, 60, 1, true).is_none());
        assert!(take(&shared, 60, 1, true).is_none(), "also inside one process");
        assert!(take(&other, 0, 50, true).is_some());
        drop(second);
        assert!(take(&other, 60, u64::MAX, true).is_some());
    }

    #[test]
    fn the_lock_of_a_process_that_dies_is_released() {
        let shared = NodeLocks::create().expect("memfd");
        let address = shared.address();
        let mut ready = [0i32; 2];
        // SAFETY: `ready` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) }, 0);
        // SAFETY: the child only makes system calls and allocates before it waits to be killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let opened = NodeLocks::open(address);
            let lock = opened.as_ref().map(|s| s.try_lock(Extent::new(0, 10), true));
            let word = [u8::from(matches!(lock, Ok(Ok(Some(_)))))];
            // SAFETY: one byte of a live array; then wait for the kill.
            unsafe {
                libc::write(ready[1], word.as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            }
        }
        let mut word = [0u8];
        // SAFETY: room for one byte.
        unsafe { libc::read(ready[0], word.as_mut_ptr().cast(), 1) };
        assert_eq!(word, [1], "the child holds the lock");
        let take = || shared.try_lock(Extent::new(5, 1), true).expect("OFD locks");
        assert!(take().is_none());
        // SAFETY: ends and collects the child made above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(take().is_some());
    }

    #[test]
    fn ranks_of_one_node_find_the_memory_of_rank_0() {
        let free = run(4, |transport| {
            Box::pin(async move {
                let locks = share_on_node(&*transport, 9).await.expect("one node");
                let range = Extent::new(0, 10);
                let take = || locks.try_lock(range, true).expect("OFD locks");
                let held = if transport.rank() == 2 { take() } else { None };
                group::barrier(&*transport, 10).await.expect("threads meet");
                let free = take().is_some();
                group::barrier(&*transport, 11).await.expect("threads meet");
                drop(held);
                free
            })
        });
        assert_eq!(free, [false; 4]);
    }
}

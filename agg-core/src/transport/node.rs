//! Shared state of processes on one node: an anonymous memory file, without any name.
//!
//! Rank 0 makes a memfd; the others open it as `/proc/PID/fd/N`. Its first word, mapped by all, is
//! the shared file pointer. Locks on its byte ranges stand for locks on the ranges of the real
//! file, so they work on every file system, and the kernel releases them when a process dies. Each
//! lock has an open file description of its own, so threads of one process exclude each other too
//! and releasing one lock never cuts another that overlaps it.

use super::{LockGuard, SharedState, Transport};
use crate::error::{Error, ErrorClass};
use crate::{Extent, Result, group};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const WORD: usize = size_of::<AtomicI64>();

/// Where other processes of the node find the memory of a [`NodeShared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// The process that made it.
    pub process: i32,
    /// Its descriptor there.
    pub descriptor: i32,
}

/// A word and range locks that processes of one node share.
#[derive(Debug)]
pub struct NodeShared {
    memory: OwnedFd,
    word: NonNull<AtomicI64>,
}

// SAFETY: `word` points to a mapping that lives as long as the value, and it is only used as an
// atomic integer; descriptors may be used from any thread.
unsafe impl Send for NodeShared {}
// SAFETY: as above.
unsafe impl Sync for NodeShared {}

fn last_error(operation: &str) -> Error {
    Error::os(operation, &io::Error::last_os_error())
}

fn open_descriptor(process: i32, descriptor: RawFd) -> Result<OwnedFd> {
    let path = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{process}/fd/{descriptor}"));
    path.map(OwnedFd::from).map_err(|cause| Error::os("open of shared memory", &cause))
}

impl NodeShared {
    /// New memory, its word 0.
    pub fn create() -> Result<Self> {
        // SAFETY: the name is a C string; the call has no other requirement.
        let fd = unsafe { libc::memfd_create(c"aggio".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(last_error("memfd_create"));
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let memory = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(memory.as_raw_fd(), WORD as libc::off_t) } != 0 {
            return Err(last_error("ftruncate of shared memory"));
        }
        Self::map(memory)
    }

    /// The memory that another process of this node made and still holds.
    pub fn open(address: NodeAddress) -> Result<Self> {
        let memory = open_descriptor(address.process, address.descriptor)?;
        let size = std::fs::File::from(memory.try_clone().map_err(|e| Error::os("dup", &e))?)
            .metadata()
            .map_err(|cause| Error::os("fstat of shared memory", &cause))?
            .len();
        if size != WORD as u64 {
            let detail = format!("shared memory of {size} bytes is not this file's");
            return Err(Error::new(ErrorClass::Intern, detail));
        }
        Self::map(memory)
    }

    fn map(memory: OwnedFd) -> Result<Self> {
        // SAFETY: maps WORD bytes of an open memory file at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                WORD,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memory.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<AtomicI64>()) {
            Some(word) if base != libc::MAP_FAILED => Ok(Self { memory, word }),
            _ => Err(last_error("mmap of shared memory")),
        }
    }

    /// What the other processes need for [`NodeShared::open`].
    pub fn address(&self) -> NodeAddress {
        let process = i32::try_from(std::process::id()).unwrap_or(-1);
        NodeAddress { process, descriptor: self.memory.as_raw_fd() }
    }

    fn word(&self) -> &AtomicI64 {
        // SAFETY: the mapping is page aligned, WORD bytes long, and lives as long as `self`.
        unsafe { self.word.as_ref() }
    }
}

impl Drop for NodeShared {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; no reference to it outlives `self`.
        unsafe { libc::munmap(self.word.as_ptr().cast(), WORD) };
    }
}

impl SharedState for NodeShared {
    fn fetch_add(&self, delta: i64) -> Result<i64> {
        Ok(self.word().fetch_add(delta, Ordering::AcqRel))
    }

    fn load(&self) -> Result<i64> {
        Ok(self.word().load(Ordering::Acquire))
    }

    fn store(&self, value: i64) -> Result<()> {
        self.word().store(value, Ordering::Release);
        Ok(())
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        if extent.is_empty() {
            return Ok(Some(Box::new(NodeLock { _descriptor: None })));
        }
        let own = NodeAddress { process: 0, ..self.address() };
        let descriptor = reopen(own.descriptor)?;
        // SAFETY: `flock` is plain data; all zero is a valid value.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_type = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as libc::c_short;
        request.l_whence = libc::SEEK_SET as libc::c_short;
        // A range that ends beyond what a lock can name reaches to infinity: length 0.
        let start = extent.offset.min(i64::MAX as u64) as i64;
        request.l_start = start;
        request.l_len = if extent.end() > i64::MAX as u64 { 0 } else { extent.len as i64 };
        loop {
            // SAFETY: the descriptor is open and `request` is a complete lock request.
            let status = unsafe {
                libc::fcntl(descriptor.as_raw_fd(), libc::F_OFD_SETLK, &raw const request)
            };
            if status == 0 {
                return Ok(Some(Box::new(NodeLock { _descriptor: Some(descriptor) })));
            }
            match io::Error::last_os_error() {
                cause if cause.raw_os_error() == Some(libc::EINTR) => {}
                cause if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                    return Ok(None);
                }
                cause => return Err(Error::os("fcntl(F_OFD_SETLK)", &cause)),
            }
        }
    }
}

/// A second open file description of the memory behind an own descriptor.
fn reopen(descriptor: RawFd) -> Result<OwnedFd> {
    open_descriptor(i32::try_from(std::process::id()).unwrap_or(-1), descriptor)
}

/// Closing the descriptor, also by the death of the process, releases the lock.
struct NodeLock {
    _descriptor: Option<OwnedFd>,
}

impl LockGuard for NodeLock {}

/// Makes one [`NodeShared`] for all ranks, which must run on one node. Collective.
///
/// Fails on all ranks alike where `/proc` or memory files are not to be had.
pub async fn share_on_node(transport: &dyn Transport, tag: u32) -> Result<Arc<dyn SharedState>> {
    let mut made = None;
    let mut message = Vec::new();
    if transport.rank() == 0 {
        let shared = NodeShared::create();
        if let Ok(shared) = &shared {
            let address = shared.address();
            message.extend_from_slice(&address.process.to_le_bytes());
            message.extend_from_slice(&address.descriptor.to_le_bytes());
        }
        made = Some(shared);
    }
    let message = group::bcast(transport, tag, 0, message).await?;
    let shared = match made {
        Some(shared) => shared,
        None => open_from_message(&message),
    };
    let (state, local) = match shared {
        Ok(shared) => (Some(shared), Ok(())),
        Err(error) => (None, Err(error)),
    };
    group::agree(transport, tag, local).await?;
    match state {
        Some(shared) => Ok(Arc::new(shared)),
        None => Err(Error::new(ErrorClass::Intern, "shared memory agreed on but not there")),
    }
}

fn open_from_message(message: &[u8]) -> Result<NodeShared> {
    let number =
        |at: usize| message.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_le_bytes);
    match (number(0), number(4)) {
        (Some(process), Some(descriptor)) => NodeShared::open(NodeAddress { process, descriptor }),
        _ => Err(Error::new(ErrorClass::Other, "rank 0 could not make shared memory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::threads::tests::run;

    #[test]
    fn two_handles_of_one_memory_share_its_word() {
        let first = NodeShared::create().expect("memfd");
        let second = NodeShared::open(first.address()).expect("/proc");
        assert_eq!(first.fetch_add(7).ok(), Some(0));
        assert_eq!(second.fetch_add(1).ok(), Some(7));
        assert_eq!(first.load().ok(), Some(8));
    }

    #[test]
    fn releasing_one_of_two_overlapping_read_locks_keeps_the_other() {
        let shared = NodeShared::create().expect("memfd");
        let other = NodeShared::open(shared.address()).expect("/proc");
        let take = |from: &NodeShared, offset, len, exclusive| {
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
        let shared = NodeShared::create().expect("memfd");
        let address = shared.address();
        let mut ready = [0i32; 2];
        // SAFETY: `ready` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) }, 0);
        // SAFETY: the child only makes system calls and allocates before it waits to be killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let opened = NodeShared::open(address);
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
        let values = run(4, |transport| {
            Box::pin(async move {
                let shared = share_on_node(&*transport, 9).await.expect("one node");
                shared.fetch_add(1).expect("memory adds");
                group::barrier(&*transport, 10).await.expect("threads meet");
                shared.load().expect("memory loads")
            })
        });
        assert_eq!(values, [4, 4, 4, 4]);
    }
}

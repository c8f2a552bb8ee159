//! Atomic mode and its locks: of the node if it has all ranks, else on the file itself.

use crate::Direction;
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_comm::group;
use aggio_comm::node::Node;
use aggio_comm::task;
use aggio_comm::transport::{LockGuard, SharedLocks, Transport};
use aggio_store::driver::Driver;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Locks on the file itself, which ranks on several hosts share through its file system.
struct FileLocks(Arc<dyn Driver>);

impl SharedLocks for FileLocks {
    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        self.0.try_lock(extent, exclusive)
    }
}

/// The ranks that look whether the file has locks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trial {
    /// The file can have none that several nodes see.
    Hopeless,
    /// This rank tries a lock, `exclusive` or not.
    Here { exclusive: bool },
    /// Other ranks try.
    Elsewhere,
}

/// Whether atomic mode is on, and its locks, made when it is first turned on.
#[derive(Default)]
pub(super) struct AtomicMode {
    on: AtomicBool,
    locks: OnceLock<Arc<dyn SharedLocks>>,
}

impl AtomicMode {
    /// Whether it is on.
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Turns it on or off.
    pub(super) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Release);
    }

    /// Whether collective calls of these ranks normally need no messages. In atomic mode they do.
    pub(super) fn meets_in_memory(&self, transport: &dyn Transport) -> bool {
        let all = |node: &Node| node.members().len() == transport.size();
        transport.node().is_some_and(all) && !self.is_on()
    }

    /// Makes the locks; all ranks have met before.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the ranks are on several hosts and the file has no locks; the same
    /// on every rank.
    pub(super) async fn share_locks(
        &self,
        transport: &dyn Transport,
        tag: u32,
        driver: &Arc<dyn Driver>,
        trial: Trial,
    ) -> Result<()> {
        if transport.size() == 1 || self.locks.get().is_some() {
            return Ok(());
        }
        let locks = match transport.nodes().count() {
            1 => transport.share_locks(tag).await?,
            _ => {
                let locks = FileLocks(Arc::clone(driver));
                group::agree(transport, tag, trial.run(&locks)).await?;
                Arc::new(locks)
            }
        };
        self.locks.get_or_init(|| locks);
        Ok(())
    }

    /// The locks that a collective call in atomic mode uses.
    pub(super) fn locks(&self) -> Option<&dyn SharedLocks> {
        self.locks.get().map(|locks| &**locks)
    }

    /// Locks `span` for an access of this rank in one direction; calls `progress` while it waits.
    ///
    /// # Errors
    /// That of the locks.
    pub(super) async fn lock(
        &self,
        span: Extent,
        direction: Direction,
        progress: impl Fn(),
    ) -> Result<Box<dyn LockGuard>> {
        let none = || Error::new(ErrorClass::Intern, "atomic mode without locks");
        let locks = self.locks.get().ok_or_else(none)?;
        loop {
            if let Some(guard) = locks.try_lock(span, direction == Direction::Write)? {
                return Ok(guard);
            }
            // The lock may be that of a split operation which waits for this rank.
            progress();
            task::pause().await;
        }
    }
}

impl Trial {
    fn run(self, locks: &FileLocks) -> Result<()> {
        match self {
            Trial::Hopeless => {
                let text = "no locks of several nodes on a file that programs exchange in memory";
                Err(Error::new(ErrorClass::UnsupportedOperation, text))
            }
            Trial::Here { exclusive } => locks.try_lock(Extent::new(0, 1), exclusive).map(drop),
            Trial::Elsewhere => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_comm::task::block_on;
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32;

    /// Locks that others hold for so many attempts.
    struct Busy(AtomicU32);

    struct Guard;

    impl LockGuard for Guard {}

    impl SharedLocks for Busy {
        fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
            assert!(exclusive && extent == Extent::new(5, 10));
            let is_free = self.0.load(Ordering::Relaxed) == 0;
            self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
            Ok(is_free.then(|| Box::new(Guard) as Box<dyn LockGuard>))
        }
    }

    #[test]
    fn other_work_proceeds_while_a_rank_waits_for_a_lock() {
        let (mode, turns) = (AtomicMode::default(), Cell::new(0));
        let count = || turns.set(turns.get() + 1);
        let lock = |mode: &AtomicMode| {
            let lock = mode.lock(Extent::new(5, 10), Direction::Write, count);
            block_on(lock, |_| {}).map(drop)
        };
        assert_eq!(lock(&mode).expect_err("no locks").class(), ErrorClass::Intern);
        assert!(mode.locks().is_none() && !mode.is_on());
        mode.locks.get_or_init(|| Arc::new(Busy(AtomicU32::new(3))));
        lock(&mode).expect("a lock");
        assert_eq!(turns.get(), 3);
        mode.set(true);
        assert!(mode.locks().is_some() && mode.is_on());
    }
}

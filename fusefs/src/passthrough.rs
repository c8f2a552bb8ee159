//! Plain files that the kernel reads and writes by itself, without asking here again.
//!
//! The kernel needs one backing file for all opens of a file, and no mixture: whether a file passes
//! through is decided while it is not open, and holds until it is closed for the last time.
//!
//! The kernel then writes with the rights that this process had when it named the backing file, and
//! does not report the writer. So a file with set-id bits does not pass through, and the others are
//! named without the right to keep such bits: one that gets them later loses them to any write.

use agg_core::log::Level;
use fuser::BackingId;
use parking_lot::Mutex;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::collections::HashMap;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Decision {
    opens: usize,
    writers: usize,
    backing: Option<Arc<BackingId>>,
}

/// Which open files pass through.
pub(crate) struct Passthrough {
    wanted: AtomicBool,
    open: Mutex<HashMap<u64, Decision>>,
}

impl Passthrough {
    pub(crate) fn new(wanted: bool) -> Self {
        Passthrough { wanted: AtomicBool::new(wanted), open: Mutex::default() }
    }

    /// The kernel cannot do it.
    pub(crate) fn give_up(&self) {
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// A file is opened: its backing file, made by `register` if it is the first and may have one.
    pub(crate) fn begin(
        &self,
        id: u64,
        writes: bool,
        register: Option<impl FnOnce() -> Result<BackingId>>,
    ) -> Option<Arc<BackingId>> {
        let mut open = self.open.lock();
        let decision = open.entry(id).or_insert_with(|| Decision {
            opens: 0,
            writers: 0,
            backing: register.and_then(|register| self.register(register)).map(Arc::new),
        });
        decision.opens += 1;
        decision.writers += usize::from(writes);
        decision.backing.clone()
    }

    fn register(&self, register: impl FnOnce() -> Result<BackingId>) -> Option<BackingId> {
        if !self.wanted.load(Ordering::Relaxed) {
            return None;
        }
        match without_keeping_set_ids(register) {
            Ok(backing) => Some(backing),
            Err(why) => {
                let words = format!("files are read and written without passthrough: {why}");
                agg_core::log::once(Level::Info, &words);
                None
            }
        }
    }

    /// Whether the kernel may have bytes of a mapping that are not in the backing file.
    pub(crate) fn may_lag(&self, id: u64) -> bool {
        let open = self.open.lock();
        open.get(&id).is_some_and(|decision| decision.backing.is_none() && decision.writers > 0)
    }

    /// A file is closed.
    pub(crate) fn end(&self, id: u64, writes: bool) {
        let mut open = self.open.lock();
        if let Some(decision) = open.get_mut(&id) {
            decision.opens = decision.opens.saturating_sub(1);
            decision.writers = decision.writers.saturating_sub(usize::from(writes));
            if decision.opens == 0 {
                open.remove(&id);
            }
        }
    }
}

/// Runs `register` with the rights of this thread but the one to keep set-id bits.
fn without_keeping_set_ids<T>(register: impl FnOnce() -> Result<T>) -> Result<T> {
    let mine = capabilities(None)?;
    let mut fewer = mine;
    fewer.effective.remove(CapabilitySet::FSETID);
    set_capabilities(None, fewer)?;
    let result = register();
    set_capabilities(None, mine)?;
    result
}

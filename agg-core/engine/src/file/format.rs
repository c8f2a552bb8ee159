//! Detects the format of an open file: each rank inspects the beginning of the file in its writes
//! and reads, and sends its findings to the others when all meet.

use super::File;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_comm::group;
use aggio_config::hints::{Hints, Switch};
use aggio_plan::format::{Chosen, Formats, LOOK, Map, Watch, combine};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// In a transfer of more pieces, only the first ones are inspected for a header.
const PIECES: usize = 256;

/// How an open file's format is found.
#[derive(Debug)]
pub(super) struct Looking {
    /// Bytes from this offset on are irrelevant for the format.
    below: AtomicU64,
    watch: Mutex<Watch>,
    /// This rank has looked at the head that the file had.
    has_looked: AtomicBool,
}

/// Whether the format of a file that `ranks` open is of use.
pub(super) fn is_wanted(hints: &Hints, formats: Formats, ranks: usize) -> bool {
    let used = ranks > 1 || hints.aggio_defer == Switch::Enable;
    used && hints.aggio_format == Chosen::Automatic && !formats.is_empty()
}

impl Looking {
    /// A state without findings.
    pub(super) fn new(formats: Formats) -> Self {
        let watch = Watch::new(&[], formats);
        let below = AtomicU64::new(watch.below());
        Self { below, watch: Mutex::new(watch), has_looked: AtomicBool::new(false) }
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The map of the file as this rank sees it.
    pub(super) fn map(&self) -> Option<Arc<dyn Map>> {
        self.watch().map()
    }

    /// Inspects a run of `len` bytes at `offset`; `first` returns the given number of first ones.
    /// The more they look like a format, the more of them are inspected.
    fn look(&self, offset: u64, len: u64, first: impl Fn(usize) -> Vec<u8>) {
        let mut seen = 0;
        loop {
            let wanted = len.min(self.below.load(Ordering::Relaxed).saturating_sub(offset));
            if wanted <= seen || !self.watch().cares_for(offset, len) {
                return;
            }
            let bytes = first(wanted as usize);
            self.change(|watch| watch.put(offset, &bytes));
            seen = wanted;
        }
    }

    /// Applies `change` to the findings.
    fn change<T>(&self, change: impl FnOnce(&mut Watch) -> T) -> T {
        let mut watch = self.watch();
        let result = change(&mut watch);
        self.below.store(watch.below(), Ordering::Relaxed);
        result
    }
}

impl File {
    /// Looks at a run of bytes that this rank writes or has read.
    pub(super) fn look_at(&self, offset: u64, bytes: &[u8]) {
        if let Some(looking) = &self.looking {
            looking.look(offset, bytes.len() as u64, |len| bytes[..len].to_vec());
        }
    }

    /// Inspects the first `len` bytes of `memory`, which this rank writes through `view` from
    /// `position` on, or has read from there.
    pub(super) fn look_at_pieces(&self, view: &View, position: u64, memory: &Memory, len: u64) {
        let Some(looking) = &self.looking else { return };
        let below = looking.below.load(Ordering::Relaxed);
        if len == 0 || view.is_empty() || view.span(position, len).offset >= below {
            return;
        }
        if view.span(position, len).offset > 0 {
            self.look_at_old_head(looking);
        }
        let mut at = 0;
        for extent in view.extents(position, len).take(PIECES) {
            if extent.offset < below {
                looking.look(extent.offset, extent.len, |len| {
                    let mut bytes = vec![0; len];
                    memory.gather(at, &mut bytes);
                    bytes
                });
            } else if view.is_aggregatable() {
                break;
            }
            at += extent.len;
        }
    }

    /// Reads the entire head of an existing file once, as a part of it may be rewritten and
    /// deferred: bytes that announce others must be stored after them.
    fn look_at_old_head(&self, looking: &Looking) {
        if self.waiting.is_none() || looking.has_looked.swap(true, Ordering::Relaxed) {
            return;
        }
        if looking.watch().is_blank() {
            let mut head = vec![0; LOOK as usize];
            // Without permission to read, nothing is found.
            let found = self.driver.read_contig(&mut head, 0, &self.counters);
            self.look_at(0, &head[..found.bytes as usize]);
        }
    }

    /// Whether this rank has findings that the other ranks lack.
    pub(super) fn has_news(&self) -> bool {
        self.looking.as_ref().is_some_and(|looking| looking.watch().has_news())
    }

    /// All ranks exchange their findings, because one of them has new ones; they have met.
    pub(super) async fn share_news(&self, tag: u32) -> Result<()> {
        let Some(looking) = &self.looking else { return Ok(()) };
        let mine = looking.change(Watch::tell);
        let all = group::allreduce(&*self.transport, tag, mine, combine).await?;
        let map = looking.change(|watch| watch.hear(&all));
        self.state().map = map;
        Ok(())
    }

    /// Records that the file ends at `size` now; called on all ranks.
    pub(super) fn look_at_size(&self, size: u64) {
        if let Some(looking) = &self.looking {
            let map = looking.change(|watch| watch.truncate(size));
            self.state().map = map;
        }
    }

    /// The map of the file that all ranks have: equal on all that are at the same collective call.
    pub(super) fn map(&self) -> Option<Arc<dyn Map>> {
        self.state().map.clone()
    }

    /// Bytes that are to be in the file after all others that wait; empty if there are none.
    pub(super) fn last_bytes(&self) -> Extent {
        let map = match &self.looking {
            Some(looking) => looking.map(),
            None => self.map(),
        };
        map.map_or(Extent::default(), |map| map.last())
    }
}

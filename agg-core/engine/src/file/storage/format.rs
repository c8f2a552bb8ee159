//! The format of an open file: each rank inspects the beginning of the file in its writes and
//! reads, and sends its findings to the others when all meet.

use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_comm::group;
use aggio_comm::transport::Transport;
use aggio_config::hints::{Hints, Switch};
use aggio_plan::format::{self, Chosen, Formats, Map, Watch, combine};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// In a transfer of more pieces, only the first ones are inspected for a header.
const PIECES: usize = 256;

/// Finds the format of an open file, and keeps the map that all ranks agreed on.
#[derive(Debug)]
pub(in crate::file) struct FormatTracker {
    /// `None` if a hint names the format or nobody needs it.
    search: Option<Search>,
    /// It changes in collective blocking operations.
    agreed: Mutex<Option<Arc<dyn Map>>>,
}

/// The findings of one rank.
#[derive(Debug)]
struct Search {
    /// Bytes from this offset on are irrelevant for the format.
    below: AtomicU64,
    watch: Mutex<Watch>,
    /// The head of an existing file was requested once.
    has_looked: AtomicBool,
}

/// Whether the format of a file that `ranks` open is of use.
fn is_wanted(hints: &Hints, formats: Formats, ranks: usize) -> bool {
    let used = ranks > 1 || hints.aggio_defer == Switch::Enable;
    used && hints.aggio_format == Chosen::Automatic && !formats.is_empty()
}

impl FormatTracker {
    /// A state without findings, for a file that `ranks` open.
    pub(in crate::file) fn new(hints: &Hints, formats: Formats, ranks: usize) -> Self {
        let search = is_wanted(hints, formats, ranks).then(|| Search::new(formats));
        Self { search, agreed: Mutex::new(format::map_of(hints.aggio_format)) }
    }

    /// Inspects a run of bytes that this rank writes or has read.
    pub(in crate::file) fn look_at(&self, offset: u64, bytes: &[u8]) {
        if let Some(search) = &self.search {
            search.look(offset, bytes.len() as u64, |len| bytes[..len].to_vec());
        }
    }

    /// Inspects the first `len` bytes of `memory`, which this rank writes through `view` from
    /// `position` on, or has read from there.
    pub(in crate::file) fn look_at_pieces(
        &self,
        view: &View,
        position: u64,
        memory: &Memory,
        len: u64,
    ) {
        if let Some(search) = &self.search {
            search.look_at_pieces(view, position, memory, len);
        }
    }

    /// Whether the head of an existing file has to be read before `len` bytes are transferred
    /// through `view` from `position` on; at most once.
    pub(in crate::file) fn takes_head(&self, view: &View, position: u64, len: u64) -> bool {
        self.search.as_ref().is_some_and(|search| search.takes_head(view, position, len))
    }

    /// Whether this rank has findings that the other ranks lack.
    pub(in crate::file) fn has_news(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.watch().has_news())
    }

    /// All ranks exchange their findings, because one of them has new ones; they have met.
    pub(in crate::file) async fn share_news(
        &self,
        transport: &dyn Transport,
        tag: u32,
    ) -> Result<()> {
        let Some(search) = &self.search else { return Ok(()) };
        let mine = search.change(Watch::tell);
        let all = group::allreduce(transport, tag, mine, combine).await?;
        let map = search.change(|watch| watch.hear(&all));
        *self.agreed() = map;
        Ok(())
    }

    /// Records that the file ends at `size` now; called on all ranks.
    pub(in crate::file) fn truncate(&self, size: u64) {
        if let Some(search) = &self.search {
            let map = search.change(|watch| watch.truncate(size));
            *self.agreed() = map;
        }
    }

    /// The map of the file that all ranks have: equal on all that are at the same collective call.
    pub(in crate::file) fn map(&self) -> Option<Arc<dyn Map>> {
        self.agreed().clone()
    }

    /// Bytes to store after all other buffered ones; empty if there are none.
    pub(in crate::file) fn last_bytes(&self) -> Extent {
        let map = match &self.search {
            Some(search) => search.watch().map(),
            None => self.map(),
        };
        map.map_or(Extent::default(), |map| map.last())
    }

    /// Replaces the map.
    #[cfg(test)]
    pub(in crate::file) fn set_map(&self, map: Arc<dyn Map>) {
        *self.agreed() = Some(map);
    }

    fn agreed(&self) -> MutexGuard<'_, Option<Arc<dyn Map>>> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Search {
    fn new(formats: Formats) -> Self {
        let watch = Watch::new(&[], formats);
        let below = AtomicU64::new(watch.below());
        Self { below, watch: Mutex::new(watch), has_looked: AtomicBool::new(false) }
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self) -> u64 {
        self.below.load(Ordering::Relaxed)
    }

    /// Inspects a run of `len` bytes at `offset`; `first` returns the given number of first ones.
    /// The more they look like a format, the more of them are inspected.
    fn look(&self, offset: u64, len: u64, first: impl Fn(usize) -> Vec<u8>) {
        let mut seen = 0;
        loop {
            let wanted = len.min(self.below().saturating_sub(offset));
            if wanted <= seen || !self.watch().cares_for(offset, len) {
                return;
            }
            let bytes = first(wanted as usize);
            self.change(|watch| watch.put(offset, &bytes));
            seen = wanted;
        }
    }

    fn look_at_pieces(&self, view: &View, position: u64, memory: &Memory, len: u64) {
        let below = self.below();
        if is_behind(view, position, len, below) {
            return;
        }
        let mut at = 0;
        for extent in view.extents(position, len).take(PIECES) {
            if extent.offset < below {
                self.look(extent.offset, extent.len, |len| {
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

    fn takes_head(&self, view: &View, position: u64, len: u64) -> bool {
        !is_behind(view, position, len, self.below())
            && view.span(position, len).offset > 0
            && !self.has_looked.swap(true, Ordering::Relaxed)
            && self.watch().is_blank()
    }

    /// Applies `change` to the findings.
    fn change<T>(&self, change: impl FnOnce(&mut Watch) -> T) -> T {
        let mut watch = self.watch();
        let result = change(&mut watch);
        self.below.store(watch.below(), Ordering::Relaxed);
        result
    }
}

/// Whether a transfer has no bytes below offset `below`.
fn is_behind(view: &View, position: u64, len: u64, below: u64) -> bool {
    len == 0 || view.is_empty() || view.span(position, len).offset >= below
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_base::diagnostics::Diagnostics;
    use aggio_config::hints::Sources;
    use aggio_plan::format::testing::{FORMATS, head_of};

    fn tracker(pairs: &[(&str, &str)], formats: Formats, ranks: usize) -> FormatTracker {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut complaints = Diagnostics::default();
        let hints = Hints::resolve(&Sources::default(), "/x", &pairs, &mut complaints);
        FormatTracker::new(&hints, formats, ranks)
    }

    #[test]
    fn a_head_in_the_writes_of_a_rank_is_news_for_the_others() {
        let tracker = tracker(&[], FORMATS, 2);
        tracker.look_at(1 << 30, &head_of(64, 32));
        assert!(!tracker.has_news() && tracker.last_bytes().is_empty());
        tracker.look_at(0, &head_of(64, 32));
        assert!(tracker.has_news() && tracker.map().is_none(), "all ranks agree on a map");
    }

    #[test]
    fn the_head_of_an_existing_file_is_read_once_before_a_write_behind_its_start() {
        let (tracker, view) = (tracker(&[], FORMATS, 2), View::bytes());
        assert!(!tracker.takes_head(&view, 0, 10) && !tracker.takes_head(&view, 10, 0));
        assert!(tracker.takes_head(&view, 10, 10) && !tracker.takes_head(&view, 10, 10));
    }

    #[test]
    fn a_rank_alone_and_one_without_formats_look_for_nothing() {
        let (alone, none) = (tracker(&[], FORMATS, 1), tracker(&[], Formats::default(), 2));
        for tracker in [alone, none] {
            tracker.look_at(0, &head_of(64, 32));
            tracker.truncate(0);
            assert!(!tracker.has_news() && !tracker.takes_head(&View::bytes(), 10, 10));
        }
        let buffered = [("aggio_defer", "enable")];
        assert!(super::tests::tracker(&buffered, FORMATS, 1).search.is_some());
    }
}

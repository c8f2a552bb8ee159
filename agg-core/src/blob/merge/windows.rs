//! The windows of a container, given to several threads.

use super::Merge;
use crate::blob::Reader;
use crate::workers::together;
use crate::{Extent, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the file that a thread copies at a time.
pub(super) const WINDOW: u64 = 8 << 20;

/// What is done with a window: its number, its bytes, and a buffer that may be used.
pub(super) type Work<'a> = &'a (dyn Fn(u64, Extent, &mut Vec<u8>) -> Result<()> + Sync);

/// Runs `work` for every window of the file, on several threads; the first error ends all of them.
pub(super) fn each_window(reader: &Reader, how: &Merge<'_>, work: Work<'_>) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if how.threads == 0 { cores } else { how.threads };
    let (size, next, done) = (reader.size(), AtomicU64::new(0), AtomicU64::new(0));
    let windows = size.div_ceil(WINDOW);
    let failure = OnceLock::new();
    let run = || {
        let mut buffer = Vec::new();
        loop {
            let window = next.fetch_add(1, Ordering::Relaxed);
            if window >= windows {
                return;
            }
            let extent = Extent::new(window * WINDOW, WINDOW).intersect(Extent::new(0, size));
            if let Err(error) = work(window, extent, &mut buffer) {
                next.store(windows, Ordering::Relaxed);
                failure.get_or_init(|| error);
                return;
            }
            let sum = done.fetch_add(extent.len, Ordering::Relaxed) + extent.len;
            if let Some(progress) = how.progress {
                progress(sum, size);
            }
        }
    };
    together(threads, "aggio-merge", None, run);
    failure.into_inner().map_or(Ok(()), Err)
}

//! The windows of a container, given to several threads.

use crate::reading::Reader;
use crate::transfer::merge::Merge;
use aggio_base::{Extent, Result};
use aggio_comm::workers::together;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the file that a thread copies at a time.
pub(crate) const WINDOW: u64 = 8 << 20;

/// The work on a window: its number, its bytes, and a scratch buffer.
pub(crate) type Work<'a> = &'a (dyn Fn(u64, Extent, &mut Vec<u8>) -> Result<()> + Sync);

/// Runs `work` for the windows of the file that have data, on several threads; the first error ends
/// all of them. `next_with_data` returns the first offset, from a given one on, that may have data.
pub(crate) fn each_window(
    reader: &Reader,
    how: &Merge<'_>,
    next_with_data: &(dyn Fn(u64) -> Result<u64> + Sync),
    work: Work<'_>,
) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if how.threads == 0 { cores } else { how.threads };
    let (size, next) = (reader.size(), AtomicU64::new(0));
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
            let worked = next_with_data(extent.offset).and_then(|data| {
                let holes = data / WINDOW;
                if holes > window {
                    // Skip windows that are holes.
                    next.fetch_max(holes, Ordering::Relaxed);
                    return Ok(());
                }
                work(window, extent, &mut buffer)
            });
            if let Err(error) = worked {
                next.store(windows, Ordering::Relaxed);
                failure.get_or_init(|| error);
                return;
            }
            if let Some(progress) = how.progress {
                progress((next.load(Ordering::Relaxed) * WINDOW).min(size), size);
            }
        }
    };
    together(threads, "aggio-merge", None, run);
    failure.into_inner().map_or(Ok(()), Err)
}

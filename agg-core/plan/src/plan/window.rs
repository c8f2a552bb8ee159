//! How much of its domain an aggregator handles at a time.

use super::Summary;

/// Mean length that messages should have if the buffer allows.
const MESSAGE: u64 = 256 << 10;

/// Windows of at least this many bytes are stored as fast as larger ones.
const LEAST: u64 = 1 << 20;

/// More is never useful, and message lengths stay far below 2 GiB.
const MOST: u64 = 1 << 30;

/// The size of windows for a call: large enough for messages of useful length, else small, so that
/// a window stays in the processor's cache; never more than `buffer_size` (hint `cb_buffer_size`).
pub fn window_size(all: &[Summary], buffer_size: u64) -> u64 {
    let ranks = all.iter().filter(|summary| summary.bytes > 0).count() as u64;
    let bytes = all.iter().fold(0u64, |sum, summary| sum.saturating_add(summary.bytes));
    let hull = Summary::hull(all).len;
    // A window has bytes / hull of its length in data.
    let dilution = (hull / bytes.max(1)).max(1);
    let wanted = MESSAGE.saturating_mul(ranks).saturating_mul(dilution);
    let rounded = wanted.checked_next_power_of_two().unwrap_or(MOST);
    rounded.clamp(LEAST, MOST).min(buffer_size).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_base::Extent;

    fn ranks(n: usize, span: u64, bytes: u64) -> Vec<Summary> {
        vec![Summary { span: Extent::new(0, span), bytes, pieces: 1, ..Summary::default() }; n]
    }

    #[test]
    fn the_hint_is_an_upper_bound() {
        assert_eq!(window_size(&ranks(4, 1 << 30, 1 << 28), 4096), 4096);
        assert_eq!(window_size(&ranks(1000, 1 << 30, 1 << 20), u64::MAX), 256 << 20);
        assert_eq!(window_size(&ranks(100_000, 1 << 40, 8), u64::MAX), 1 << 30);
    }

    #[test]
    fn few_ranks_with_dense_data_get_windows_that_fit_a_cache() {
        assert_eq!(window_size(&ranks(4, 1 << 30, 1 << 28), 16 << 20), 1 << 20);
        assert_eq!(window_size(&[], 16 << 20), 1 << 20);
    }
}

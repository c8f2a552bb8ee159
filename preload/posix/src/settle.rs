//! Stores buffered bytes of files and containers in the kernel before others look.

use super::containers::store_kept;
use super::files::{File, Held};
use super::{flush, state};
use agg_core::rules::Mode;

/// Calls `with` for every open file, locked, and stores the buffered writes of containers.
pub fn each(with: impl FnMut(&'static File, &mut Held)) {
    flush::each(with);
    store_kept(|_| true);
}

/// Writes out everything that is kept.
#[inline]
pub fn all() {
    if state::any_dirty() {
        flush::all();
        store_kept(|_| true);
    }
}

/// Writes out the buffered bytes of files in mode causal.
#[inline]
pub fn causal() {
    if state::any_causal() {
        flush::causal();
        store_kept(|mode| mode == Mode::Causal);
    }
}

/// Before a name of any file changes: everything is written out, and kept under the new name then.
#[cold]
pub fn before_rename() {
    if state::Inside::is() || state::is_guest() {
        return;
    }
    each(|file, held| {
        flush::drain_quietly(file, held);
        flush::give_back(held);
    });
}

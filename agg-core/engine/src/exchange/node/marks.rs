//! The bytes of a window that its ranks supplied or need: each rank marks its own in shared memory,
//! and the rank that stores, sends or gets the window merges the marks.

use super::super::coverage::Coverage;
use super::super::share::Part;
use super::scale::Scale;
use aggio_comm::node::Ring;
use aggio_types::view::View;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The marks of the windows of a ring.
#[derive(Clone, Copy)]
pub(super) struct Marks<'r> {
    ring: &'r Ring<'r>,
    grain: u32,
}

impl<'r> Marks<'r> {
    /// The marks of `ring`, each for 2 to the power `grain` bytes.
    pub(super) fn new(ring: &'r Ring<'r>, grain: u32) -> Self {
        Self { ring, grain }
    }

    /// Marks the bytes of `part` of the view's data, which this rank has put into the window or
    /// needs from it.
    pub(super) fn add(self, window: u32, view: &View, part: Part) {
        let scale = Scale::new(part.window, self.grain);
        self.change(window, |marks| {
            for rows in view.rows(part.position, part.len as u64) {
                let (start, len, stride, count) = scale.rows(rows);
                marks.add_rows(start, len, stride, count);
            }
        });
    }

    /// Marks the bytes of another node that this rank has put into the window.
    pub(super) fn merge(self, window: u32, supplied: &Coverage) {
        self.change(window, |marks| {
            marks.merge(supplied.used().start, supplied.used_words());
        });
    }

    /// Changes this rank's marks, and records which of them are in use.
    fn change(self, window: u32, change: impl FnOnce(&mut Coverage<&mut [u64]>)) {
        let (words, len) = self.ring.marks(window, self.ring.index());
        let used = self.ring.used(window, self.ring.index());
        let packed = used.load(Ordering::SeqCst);
        let before = (packed >> 32) as usize..(packed & 0xFFFF_FFFF) as usize;
        // SAFETY: aligned, inside the shared memory, all 0 but those in use; this rank's alone
        // until it arrives, and this thread's alone until `change` returns.
        let words = unsafe { std::slice::from_raw_parts_mut(words, len) };
        let mut marks = Coverage::over(words, before);
        change(&mut marks);
        let Range { start, end } = marks.used();
        used.store((start as u64) << 32 | end as u64, Ordering::SeqCst);
    }

    /// Puts all ranks' marks into `all` and clears them.
    pub(super) fn collect(self, window: u32, all: &mut Coverage) {
        self.take(window, |start, words| all.merge(start, words));
    }

    /// Clears all ranks' marks.
    pub(super) fn forget(self, window: u32) {
        self.take(window, |_, _| ());
    }

    /// Shows `look` each rank's marks, with the place of their first word, and clears them.
    fn take(self, window: u32, mut look: impl FnMut(usize, &[u64])) {
        for index in 0..self.ring.members() {
            let packed = self.ring.used(window, index).swap(0, Ordering::SeqCst);
            let used = (packed >> 32) as usize..(packed & 0xFFFF_FFFF) as usize;
            if !used.is_empty() {
                let (words, len) = self.ring.marks(window, index);
                // SAFETY: as above; the member has arrived and leaves its marks to the rank that
                // stores, sends or gets the window.
                let words = unsafe { std::slice::from_raw_parts_mut(words, len) };
                look(used.start, &words[used.clone()]);
                words[used].fill(0);
            }
        }
    }
}

//! The bytes of a window that its ranks supplied: each rank marks its own, and the rank that stores
//! the window merges the marks.
//!
//! A mark stands for `2^grain` bytes: no piece of the call begins or ends inside one.

use super::super::coverage::Coverage;
use super::super::share::Part;
use super::NodeAggregation;
use aggio_base::Extent;
use aggio_types::datatype::Rows;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// File bytes as numbers of marks.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    start: u64,
    grain: u32,
}

impl Scale {
    /// The scale of `window`. The first mark may begin before the window.
    pub(super) fn new(window: Extent, grain: u32) -> Self {
        Self { start: window.offset >> grain, grain }
    }

    fn rows(self, rows: Rows) -> (usize, usize, usize, usize) {
        let start = (rows.displacement as u64 >> self.grain) - self.start;
        let len = (rows.len >> self.grain) as usize;
        // With a single row, or if only the first row is known, the stride may have any value.
        let stride = (rows.stride as u64 >> self.grain) as usize;
        (start as usize, len, stride, rows.count as usize)
    }

    /// The bytes of `window` that `marks` stand for, counted from the window's start.
    fn bytes(self, marks: Range<usize>, window: Extent) -> Range<usize> {
        let byte = |mark: usize| {
            let offset = (self.start + mark as u64) << self.grain;
            offset.clamp(window.offset, window.end()) - window.offset
        };
        byte(marks.start) as usize..byte(marks.end) as usize
    }
}

impl NodeAggregation<'_> {
    /// Marks the bytes of `part`, which this rank has put into the window or needs from it.
    pub(super) fn mark(&self, window: u32, part: Part) {
        let scale = Scale::new(part.window, self.grain);
        self.change_marks(window, |marks| {
            for rows in self.request.view.rows(part.position, part.len as u64) {
                let (start, len, stride, count) = scale.rows(rows);
                marks.add_rows(start, len, stride, count);
            }
        });
    }

    /// Marks the bytes of another node that this rank has put into the window.
    pub(super) fn mark_all(&self, window: u32, supplied: &Coverage) {
        self.change_marks(window, |marks| {
            marks.merge(supplied.used().start, supplied.used_words());
        });
    }

    /// Changes this rank's marks, and records which of them are in use.
    fn change_marks(&self, window: u32, change: impl FnOnce(&mut Coverage<&mut [u64]>)) {
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
    pub(super) fn collect(&self, window: u32, all: &mut Coverage) {
        self.take_marks(window, |start, words| all.merge(start, words));
    }

    /// Clears all ranks' marks.
    pub(super) fn forget(&self, window: u32) {
        self.take_marks(window, |_, _| ());
    }

    /// Shows `look` each rank's marks, with the place of their first word, and clears them.
    fn take_marks(&self, window: u32, mut look: impl FnMut(usize, &[u64])) {
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

    /// The supplied runs of bytes of a window, from its start, out of its marks.
    pub(super) fn runs<'c>(
        &self,
        extent: Extent,
        marks: &'c Coverage,
    ) -> impl Iterator<Item = Range<usize>> + use<'c> {
        let scale = Scale::new(extent, self.grain);
        marks.runs(0).map(move |run| scale.bytes(run, extent))
    }
}

//! The marks of a window: each stands for `2^grain` bytes of the file, and no piece of the call
//! begins or ends inside one.

use super::super::coverage::Coverage;
use aggio_base::Extent;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_types::datatype::Rows;
use std::ops::Range;

/// The bytes of a window as numbers of marks.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    window: Extent,
    /// The first mark; it may begin before the window.
    start: u64,
    grain: u32,
}

impl Scale {
    /// The scale of `window`, with a mark for each 2 to the power `grain` bytes.
    pub(super) fn new(window: Extent, grain: u32) -> Self {
        Self { window, start: window.offset >> grain, grain }
    }

    /// The marks of `rows` of the file: start, length, stride, count.
    pub(super) fn rows(self, rows: Rows) -> (usize, usize, usize, usize) {
        let start = (rows.displacement as u64 >> self.grain) - self.start;
        let len = (rows.len >> self.grain) as usize;
        // With a single row, or if only the first row is known, the stride may have any value.
        let stride = (rows.stride as u64 >> self.grain) as usize;
        (start as usize, len, stride, rows.count as usize)
    }

    /// The bytes that a range of marks stands for, counted from the window's start.
    fn bytes(self, marks: Range<usize>) -> Range<usize> {
        let byte = |mark: usize| {
            let offset = (self.start + mark as u64) << self.grain;
            offset.clamp(self.window.offset, self.window.end()) - self.window.offset
        };
        byte(marks.start) as usize..byte(marks.end) as usize
    }

    /// The runs of bytes that `marks` stand for, counted from the window's start.
    pub(super) fn runs(self, marks: &Coverage) -> impl Iterator<Item = Range<usize>> + use<'_> {
        marks.runs(0).map(move |run| self.bytes(run))
    }

    /// The same up to file byte `valid`.
    pub(super) fn runs_below(
        self,
        marks: &Coverage,
        valid: u64,
    ) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let Extent { offset, .. } = self.window;
        let below = (valid.clamp(offset, self.window.end()) - offset) as usize;
        let runs = self.runs(marks).take_while(move |run| run.start < below);
        runs.map(move |run| run.start..run.end.min(below))
    }

    /// The file byte before which are the first `len` bytes that `marks` stand for, and no other of
    /// them; the end of the window if that are all.
    ///
    /// # Errors
    /// `Intern` if `marks` stand for fewer bytes.
    pub(super) fn end_of(self, marks: &Coverage, mut len: usize) -> Result<u64> {
        for run in self.runs(marks) {
            if len < run.len() {
                return Ok(self.window.offset + (run.start + len) as u64);
            }
            len -= run.len();
        }
        match len {
            0 => Ok(self.window.end()),
            more => Err(Error::new(ErrorClass::Intern, format!("{more} bytes too many came"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window that begins inside a mark and ends inside another, with marks of 8 bytes.
    const WINDOW: Extent = Extent { offset: 1004, len: 90 };
    const GRAIN: u32 = 3;

    fn marks(runs: &[(usize, usize)]) -> Coverage {
        let mut marks = Coverage::new(64).expect("memory");
        runs.iter().for_each(|(start, len)| marks.add(*start, *len));
        marks
    }

    fn ends(runs: impl Iterator<Item = Range<usize>>) -> Vec<(usize, usize)> {
        runs.map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn marks_stand_for_the_bytes_of_the_window_only() {
        let scale = Scale::new(WINDOW, GRAIN);
        assert_eq!(ends(scale.runs(&marks(&[(0, 12)]))), [(0, 90)]);
        // The first mark is that of bytes 1000..1008.
        let some = ends(scale.runs(&marks(&[(0, 1), (2, 1), (10, 2)])));
        assert_eq!(some, [(0, 4), (12, 20), (76, 90)]);
        assert_eq!(scale.runs(&Coverage::none()).count(), 0);
    }

    #[test]
    fn rows_of_the_file_become_rows_of_marks() {
        let rows = Rows { displacement: 1016, len: 16, stride: 32, count: 2 };
        let scale = Scale::new(WINDOW, GRAIN);
        assert_eq!(scale.rows(rows), (2, 2, 4, 2));
        let mut marks = Coverage::new(64).expect("memory");
        let (start, len, stride, count) = scale.rows(rows);
        marks.add_rows(start, len, stride, count);
        assert_eq!(ends(scale.runs(&marks)), [(12, 28), (44, 60)]);
    }

    #[test]
    fn runs_are_cut_at_the_end_of_the_file() {
        let (scale, marks) = (Scale::new(WINDOW, GRAIN), marks(&[(0, 1), (2, 1), (10, 2)]));
        let below = |valid| ends(scale.runs_below(&marks, valid));
        assert_eq!(below(0), []);
        assert_eq!(below(1006), [(0, 2)]);
        assert_eq!(below(1016), [(0, 4)]);
        assert_eq!(below(1020), [(0, 4), (12, 16)]);
        assert_eq!(below(u64::MAX), [(0, 4), (12, 20), (76, 90)]);
    }

    #[test]
    fn the_number_of_bytes_that_came_tells_the_end_of_the_file() {
        let (scale, marks) = (Scale::new(WINDOW, GRAIN), marks(&[(0, 1), (2, 1), (10, 2)]));
        let end = |len| scale.end_of(&marks, len).map_err(|error| error.class());
        assert_eq!(end(0), Ok(1004));
        assert_eq!(end(3), Ok(1007));
        // The next byte that the marks stand for is missing.
        assert_eq!(end(4), Ok(1016));
        assert_eq!(end(25), Ok(1093));
        assert_eq!(end(26), Ok(1094));
        assert_eq!(end(27), Err(ErrorClass::Intern));
    }
}

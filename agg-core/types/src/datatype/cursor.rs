//! Walking along the data bytes of a datatype, run by run.

use super::Datatype;
use super::walk::{Grain, Stop, Walk};

/// A run of bytes: displacement and length.
type Run = (i64, u64);

/// `count` runs of `len` bytes, `stride` bytes apart; the first is at `displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Displacement of the first run.
    pub displacement: i64,
    /// Bytes of each run.
    pub len: u64,
    /// Distance of the runs in bytes; may be negative.
    pub stride: i64,
    /// Number of runs, at least two.
    pub count: u64,
}

/// A place in the data bytes of copies of a datatype.
///
/// Owns the datatype. Moving to the next run costs no allocation and amortised O(1);
/// [`Cursor::seek`] costs O(depth × log of the longest irregular list).
#[derive(Clone, Debug)]
pub struct Cursor {
    datatype: Datatype,
    copies: u64,
    walk: Walk,
    position: u64,
    /// The rest of the current run.
    current: Option<Run>,
    /// The run after it, not adjacent to it.
    next: Option<Run>,
}

impl Cursor {
    pub(super) fn new(datatype: Datatype, copies: u64, position: u64) -> Self {
        let walk = Walk::new(&datatype, copies, Grain::Runs);
        let mut cursor = Self { datatype, copies, walk, position: 0, current: None, next: None };
        cursor.seek(position);
        cursor
    }

    /// Number of data bytes before this place.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The bytes from here to the next gap: displacement and length, never empty. `None` at the
    /// end, and where displacements leave 64 bits.
    #[inline]
    pub fn run(&self) -> Option<(i64, u64)> {
        self.current
    }

    /// Passes over `bytes` data bytes.
    #[inline]
    pub fn advance(&mut self, bytes: u64) {
        let Some((at, len)) = self.current else { return };
        if bytes < len {
            self.current = Some((at + bytes as i64, len - bytes));
            self.position += bytes;
        } else if bytes == len {
            self.position += bytes;
            self.load();
        } else {
            self.seek(self.position.saturating_add(bytes));
        }
    }

    /// Passes over equal runs at equal distances, as many as are known at once and hold at most
    /// `most` bytes together; `None` if that would be less than two.
    pub fn take_rows(&mut self, most: u64) -> Option<Rows> {
        let ((at, len), (next, next_len)) = (self.current?, self.next?);
        let (stride, steps) = self.walk.steps()?;
        if len != next_len || next.checked_sub(at) != Some(stride) {
            return None;
        }
        let count = steps.min(most / len);
        if count < 2 {
            return None;
        }
        self.walk.skip(count);
        let distance = (count as i64).wrapping_mul(stride);
        self.current = Some((at.wrapping_add(distance), len));
        self.next = Some((next.wrapping_add(distance), len));
        self.position += count * len;
        Some(Rows { displacement: at, len, stride, count })
    }

    /// Goes to data byte `position`; to the end if there are fewer.
    pub fn seek(&mut self, position: u64) {
        (self.current, self.next) = (None, None);
        let size = self.datatype.size();
        let total =
            if self.copies == u64::MAX { u64::MAX } else { size.saturating_mul(self.copies) };
        self.position = if size == 0 { 0 } else { position.min(total) };
        if size == 0 || position >= total {
            return;
        }
        if self.datatype.is_contiguous() {
            self.current = self.whole(position, total);
            return;
        }
        self.next = self
            .walk
            .locate(position)
            .map(|(stop, skip)| (stop.displacement.wrapping_add(skip as i64), stop.size - skip));
        self.load();
    }

    /// The one run of a contiguous datatype from `position` on.
    fn whole(&self, position: u64, total: u64) -> Option<Run> {
        let at = self.datatype.first_displacement().checked_add(i64::try_from(position).ok()?)?;
        let room = i64::MAX.abs_diff(at);
        (room > 0).then(|| (at, room.min(total - position)))
    }

    /// Makes the waiting run current, together with all that continue it.
    #[inline]
    fn load(&mut self) {
        self.current = self.next.take();
        let Some((at, len)) = &mut self.current else { return };
        while let Some(Stop { displacement, size, .. }) = self.walk.step() {
            if at.checked_add_unsigned(*len) == Some(displacement) {
                *len += size;
            } else {
                self.next = Some((displacement, size));
                return;
            }
        }
    }
}

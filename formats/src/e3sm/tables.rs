//! The requests of a decomposition in one subfile: which canonical elements lie where.

use super::headers::Decomposition;
use crate::cdf::Endian;

/// Elements that lie together, canonically and in the subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first canonical element.
    pub(crate) to: u32,
    /// How many.
    pub(crate) len: u32,
    /// Elements of the same blob before them.
    pub(crate) at: u64,
}

impl Run {
    fn end(&self) -> u64 {
        u64::from(self.to) + u64::from(self.len)
    }
}

/// The elements that one process wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    /// Elements of the subfile before it.
    pub(crate) start: u64,
    /// Its elements.
    pub(crate) count: u64,
    /// Its runs in the order of the subfile.
    pub(crate) runs: Vec<Run>,
    /// Whether that is the canonical order as well.
    pub(crate) sorted: bool,
}

impl Blob {
    /// Its runs that touch canonical elements of a range.
    pub(crate) fn among(&self, range: &std::ops::Range<u64>) -> &[Run] {
        if !self.sorted {
            return &self.runs;
        }
        let first = self.runs.partition_point(|run| run.end() <= range.start);
        let last = self.runs.partition_point(|run| u64::from(run.to) < range.end);
        self.runs.get(first..last).unwrap_or(&[])
    }
}

/// A decomposition in one subfile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// The blob of each process.
    pub(crate) blobs: Vec<Blob>,
    /// Requests as they are stored.
    pub(crate) requests: u64,
}

/// A list of integers of the file.
pub(super) struct Numbers<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) endian: Endian,
}

impl Numbers<'_> {
    /// The number of 32 bits at a position.
    pub(super) fn int(&self, index: usize) -> Option<i64> {
        let bytes = *self.bytes.as_chunks::<4>().0.get(index)?;
        Some(
            match self.endian {
                Endian::Big => i32::from_be_bytes(bytes),
                Endian::Little => i32::from_le_bytes(bytes),
            }
            .into(),
        )
    }

    /// The number of 64 bits at a position.
    pub(super) fn long(&self, index: usize) -> Option<i64> {
        let bytes = *self.bytes.as_chunks::<8>().0.get(index)?;
        Some(match self.endian {
            Endian::Big => i64::from_be_bytes(bytes),
            Endian::Little => i64::from_le_bytes(bytes),
        })
    }
}

/// A blob's row of the tables.
pub(super) struct Row<'a> {
    pub(super) requests: usize,
    pub(super) start: u64,
    pub(super) count: u64,
    pub(super) offsets: Numbers<'a>,
    pub(super) lengths: Numbers<'a>,
}

impl Decomposition {
    /// A blob, from its row of the tables.
    ///
    /// # Errors
    ///
    /// Describes the error in the row.
    pub(super) fn blob(&self, row: &Row<'_>) -> Result<Blob, String> {
        // No more than were read.
        let most = row.requests.min(row.offsets.bytes.len() / 4);
        let runs = Vec::with_capacity(most);
        let mut blob = Blob { start: row.start, count: row.count, runs, sorted: true };
        let mut at = 0;
        for index in 0..row.requests {
            let request = row.offsets.int(index).zip(row.lengths.int(index));
            let (offset, length) = request.ok_or("has fewer requests than it says")?;
            let (to, len) = self.checked(offset, length).ok_or_else(|| {
                format!(
                    "request {index}, {length} elements at {offset}, lies in no row of the \
                    decomposition"
                )
            })?;
            if len > 0 {
                blob.push(Run { to, len, at });
            }
            at += u64::from(len);
        }
        if at != row.count {
            return Err(format!("has {} elements, but its requests have {at}", row.count));
        }
        if blob.runs.len() < most - most / 4 {
            blob.runs.shrink_to_fit();
        }
        Ok(blob)
    }

    /// A request inside of one row.
    fn checked(&self, offset: i64, length: i64) -> Option<(u32, u32)> {
        let (to, len) = (u32::try_from(offset).ok()?, u32::try_from(length).ok()?);
        let end = u64::from(to) + u64::from(len);
        (end <= self.elements && u64::from(to) % self.row + u64::from(len) <= self.row)
            .then_some((to, len))
    }
}

impl Blob {
    /// Adds the next run; one that goes on where the last ended becomes part of it.
    fn push(&mut self, run: Run) {
        if let Some(last) = self.runs.last_mut() {
            self.sorted &= last.end() <= u64::from(run.to);
            if last.end() == u64::from(run.to)
                && let Some(len) = last.len.checked_add(run.len)
            {
                last.len = len;
                return;
            }
        }
        self.runs.push(run);
    }
}

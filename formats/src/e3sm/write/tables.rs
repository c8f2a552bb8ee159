//! The tables of a decomposition: the requests of each blob.

use super::head::most;
use super::maps::{Map, Run};
use super::out::Out;
use crate::cdf::Endian;
use crate::error::Result;

/// Requests that are put at a time.
const PIECE: usize = if cfg!(test) { 3 } else { 64 << 10 };

/// The tables of a decomposition in one subfile.
pub(super) struct Tables<'a> {
    pub(super) map: &'a Map,
    /// The writers of the subfile's blobs.
    pub(super) group: &'a [u32],
    pub(super) endian: Endian,
}

impl Tables<'_> {
    fn turned(&self, size: u64) -> u64 {
        if self.endian == Endian::Little { size } else { 0 }
    }

    /// Where the table of so many bytes an element begins, and the blob's own number.
    fn count(&self, number: u64, size: usize, to: u64, out: &mut Out<'_>) -> Result<()> {
        out.at(to)?;
        // No number has more bits than its column.
        out.put(&number.to_be_bytes()[8 - size..], self.turned(size as u64));
        Ok(())
    }

    fn list(&self, writer: u32, of: impl Fn(Run) -> u32, to: u64, out: &mut Out<'_>) -> Result<()> {
        let (mut requests, mut to) = (self.map.requests_of(writer).peekable(), to);
        while requests.peek().is_some() {
            out.at(to)?;
            let mut count = 0;
            for request in requests.by_ref().take(PIECE) {
                out.put(&of(request).to_be_bytes(), self.turned(4));
                count += 4;
            }
            to += count;
        }
        Ok(())
    }

    /// Elements of the subfile before each blob.
    fn starts(&self) -> impl Iterator<Item = u64> {
        self.group.iter().scan(0, |next, writer| {
            let start = *next;
            *next += self.map.count(*writer);
            Some(start)
        })
    }

    /// Writes the five variables, which begin at `begins`. Entries without a request stay as they
    /// are.
    pub(super) fn write_columns(&self, begins: [u64; 5], out: &mut Out<'_>) -> Result<()> {
        let width = 4 * most(self.map, self.group);
        let blobs = || (0_u64..).zip(self.group.iter().copied());
        for (blob, writer) in blobs() {
            self.count(self.map.request_count(writer), 4, begins[0] + 4 * blob, out)?;
        }
        for (blob, start) in (0_u64..).zip(self.starts()) {
            self.count(start, 8, begins[1] + 8 * blob, out)?;
        }
        for (blob, writer) in blobs() {
            self.count(self.map.count(writer), 8, begins[2] + 8 * blob, out)?;
        }
        for (blob, writer) in blobs() {
            self.list(writer, |run| run.to, begins[3] + width * blob, out)?;
        }
        for (blob, writer) in blobs() {
            self.list(writer, |run| run.len, begins[4] + width * blob, out)?;
        }
        Ok(())
    }

    /// Bytes of a blob's row.
    pub(super) fn row_bytes(&self, blob: usize) -> u64 {
        4 + 8 + 8 + 8 * self.map.request_count(self.group[blob])
    }

    /// Writes the rows of all blobs, each at its place.
    pub(super) fn write_rows(&self, places: &[u64], out: &mut Out<'_>) -> Result<()> {
        for ((writer, start), to) in self.group.iter().zip(self.starts()).zip(places) {
            let requests = self.map.request_count(*writer);
            self.count(requests, 4, *to, out)?;
            self.count(start, 8, to + 4, out)?;
            self.count(self.map.count(*writer), 8, to + 12, out)?;
            self.list(*writer, |run| run.to, to + 20, out)?;
            self.list(*writer, |run| run.len, to + 20 + 4 * requests, out)?;
        }
        Ok(())
    }
}

//! Data of a subfile in HDF5: blob behind blob, each with its tables and then all variables.

use super::headers::{Described, TABLES};
use super::storage::Subfile;
use super::tables::{Blob, Numbers, Row, Table};
use crate::error::{Error, Kind, Result};
use crate::files::{Files, bytes};
use std::ops::Range;

/// Where the data of each blob are.
pub(super) struct Blobs {
    /// Where they begin, behind the blob's tables.
    begins: Vec<u64>,
    sums: Sums,
    /// Bytes of each variable's element, and of its part of a record if only the first blob has it.
    sizes: Vec<(u64, u64)>,
}

/// Bytes in a blob before something.
#[derive(Clone, Default)]
struct Before {
    /// For one element of each decomposition.
    factors: Vec<u64>,
    /// Which only the first blob has.
    whole: u64,
}

/// Bytes in a blob before each variable, and before its end.
struct Sums {
    before: Vec<Before>,
    end: Before,
}

impl Before {
    /// The bytes in a blob that has so many elements of each decomposition; `None` beyond 64 bits.
    fn bytes(&self, is_first: bool, counts: impl Iterator<Item = u64>) -> Option<u64> {
        let whole = if is_first { self.whole } else { 0 };
        let mut factors = self.factors.iter().zip(counts);
        factors.try_fold(whole, |sum, (factor, count)| sum.checked_add(factor.checked_mul(count)?))
    }
}

impl Sums {
    fn of(subfile: &Subfile, described: &Described) -> Option<Self> {
        let mut end = Before { factors: vec![0; described.tables.len()], whole: 0 };
        let mut before = vec![end.clone(); described.tables.len() * TABLES.len()];
        for stored in &described.stored {
            before.push(end.clone());
            let variable = &subfile.header.variables[stored.variable];
            let times = if subfile.header.has_records(variable) { subfile.records } else { 1 };
            let element = variable.kind.size().checked_mul(times)?;
            match stored.decomposition {
                Some(k) => end.factors[k] = end.factors[k].checked_add(element)?,
                None => {
                    let bytes = subfile.header.elements(variable)?.checked_mul(element)?;
                    end.whole = end.whole.checked_add(bytes)?;
                }
            }
        }
        Some(Sums { before, end })
    }
}

impl Blobs {
    /// Goes through all blobs, which lie in `range` of the file.
    pub(super) fn read(
        files: &dyn Files,
        subfile: &Subfile,
        described: &Described,
        range: &Range<u64>,
    ) -> Result<(Self, Vec<Table>)> {
        let file = subfile.file;
        let sums = Sums::of(subfile, described)
            .ok_or_else(|| Error::corrupt(files.name(file), "a blob is larger than any file"))?;
        let mut tables = vec![Table::default(); described.tables.len()];
        let mut walk = Walk { files, subfile, described, at: range.start, end: range.end, blob: 0 };
        let mut begins = Vec::new();
        // Without decompositions only the first blob has anything.
        let count = if tables.is_empty() { described.blobs.min(1) } else { described.blobs };
        while walk.blob < count {
            for (k, table) in tables.iter_mut().enumerate() {
                let (blob, requests) = walk.table(k)?;
                table.requests += requests;
                table.blobs.push(blob);
            }
            begins.push(walk.at);
            let counts = tables.iter().filter_map(|table| table.blobs.last());
            let data = sums.end.bytes(walk.blob == 0, counts.map(|blob| blob.count));
            walk.skip(data)?;
            walk.blob += 1;
        }
        if walk.at != range.end {
            let what = format!("data_blob has {} bytes behind its last blob", range.end - walk.at);
            return Err(Error::corrupt(files.name(file), what));
        }
        let sizes = subfile.header.variables.iter().map(|variable| {
            let elements = subfile.header.elements(variable).unwrap_or(0);
            (variable.kind.size(), elements.saturating_mul(variable.kind.size()))
        });
        Ok((Blobs { begins, sums, sizes: sizes.collect() }, tables))
    }

    /// Where a blob's elements of a variable of decomposition `k` begin.
    pub(super) fn decomposed(
        &self,
        variable: usize,
        record: u64,
        blob: usize,
        tables: &[Table],
        k: usize,
    ) -> Option<u64> {
        let counts = || tables.iter().map(|table| table.blobs.get(blob).map_or(0, |one| one.count));
        let before = self.sums.before.get(variable)?.bytes(blob == 0, counts())?;
        let record_bytes = counts().nth(k)?.checked_mul(self.sizes.get(variable)?.0)?;
        let begin = self.begins.get(blob)?.checked_add(before)?;
        begin.checked_add(record_bytes.checked_mul(record)?)
    }

    /// Where a variable begins that only the first blob has.
    pub(super) fn whole(&self, variable: usize, record: u64, tables: &[Table]) -> Option<u64> {
        let counts = tables.iter().map(|table| table.blobs.first().map_or(0, |one| one.count));
        let before = self.sums.before.get(variable)?.bytes(true, counts)?;
        let begin = self.begins.first()?.checked_add(before)?;
        begin.checked_add(self.sizes.get(variable)?.1.checked_mul(record)?)
    }
}

/// A way through the blobs.
struct Walk<'a> {
    files: &'a dyn Files,
    subfile: &'a Subfile,
    described: &'a Described,
    at: u64,
    end: u64,
    blob: u64,
}

impl Walk<'_> {
    fn truncated(&self) -> Error {
        let (blob, blobs) = (self.blob, self.described.blobs);
        let what = format!("truncated: data_blob ends in blob {blob} of {blobs}");
        Error::new(self.files.name(self.subfile.file), Kind::Truncated, what)
    }

    fn skip(&mut self, count: Option<u64>) -> Result<()> {
        let end = count.and_then(|count| self.at.checked_add(count));
        self.at = end.filter(|end| *end <= self.end).ok_or_else(|| self.truncated())?;
        Ok(())
    }

    fn take(&mut self, count: u64) -> Result<Vec<u8>> {
        let start = self.at;
        self.skip(Some(count))?;
        bytes(self.files, self.subfile.file, start, count)
    }

    /// The blob's row of the tables of decomposition `k`, and how many requests that has.
    fn table(&mut self, k: usize) -> Result<(Blob, u64)> {
        let (blob, endian) = (self.blob, self.subfile.endian);
        let name = self.files.name(self.subfile.file);
        let wrong =
            |why: &str| Error::corrupt(name.clone(), format!("D{}: blob {blob} {why}", k + 1));
        let fixed = self.take(4 + 8 + 8)?;
        let fixed = |range: Range<usize>| Numbers { bytes: &fixed[range], endian };
        let most = self.described.tables[k].most_requests;
        let number = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let requests = number(fixed(0..4).int(0)).filter(|requests| *requests <= most);
        let requests = requests.ok_or_else(|| wrong("has more requests than any blob"))?;
        let (offsets, lengths) = (self.take(4 * requests)?, self.take(4 * requests)?);
        let negative = || wrong("has a negative number of elements");
        let row = Row {
            requests: usize::try_from(requests).unwrap_or(usize::MAX),
            start: number(fixed(4..12).long(0)).ok_or_else(negative)?,
            count: number(fixed(12..20).long(0)).ok_or_else(negative)?,
            offsets: Numbers { bytes: &offsets, endian },
            lengths: Numbers { bytes: &lengths, endian },
        };
        let blob = self.described.decompositions[k].blob(&row).map_err(|why| wrong(&why))?;
        Ok((blob, requests))
    }
}

//! Where a subfile keeps its tables and data: variable by variable (PnetCDF), or process by process
//! (HDF5).

use super::blobs::Blobs;
use super::headers::{Decomposition, Described, records};
use super::tables::{Numbers, Row, Table};
use crate::cdf::{self, Dialect, Endian, Header, Layout};
use crate::error::{Error, Kind, Result};
use crate::files::{Files, bytes};
use crate::hdf5;
use std::ops::Range;

/// Bytes that are read first when a header is looked for.
const FIRST: u64 = 256 << 10;

/// A subfile with its header.
pub(super) struct Subfile {
    /// Its position in the set.
    pub(super) file: usize,
    pub(super) header: Header,
    /// Its records.
    pub(super) records: u64,
    pub(super) endian: Endian,
    /// The bytes of all blobs, in an HDF5 file.
    blobs: Option<Range<u64>>,
}

/// Where the data of a subfile are.
pub(super) enum Storage {
    /// As in every netCDF file.
    Variables(Layout),
    /// Blob behind blob, each with all variables.
    Blobs(Blobs),
}

/// Reads a netCDF header at the beginning of a file.
pub(crate) fn read_header(files: &dyn Files, file: usize, dialect: Dialect) -> Result<Header> {
    let size = files.size(file)?;
    let mut wanted = FIRST.min(size);
    loop {
        let start = bytes(files, file, 0, wanted)?;
        match cdf::parse_as(&start, dialect) {
            Ok(header) => return Ok(header),
            Err(cdf::Error::NeedMore(least)) if least <= size => {
                wanted = least.max(wanted.saturating_mul(2)).min(size);
            }
            Err(why @ cdf::Error::NeedMore(_)) => {
                let what = format!("{why}, the file has {size}");
                return Err(Error::new(files.name(file), Kind::Truncated, what));
            }
            Err(why) => return Err(Error::corrupt(files.name(file), why.to_string())),
        }
    }
}

/// How many files a set has, if the first of `files` is one of them.
pub(crate) fn subfiles_of(files: &dyn Files) -> Result<Option<usize>> {
    let size = files.size(0)?;
    let start = bytes(files, 0, 0, size.min(8))?;
    if start != hdf5::SIGNATURE && !start.starts_with(b"CDF") {
        return Ok(None);
    }
    Ok(super::headers::subfiles(&Subfile::open(files, 0)?.header))
}

impl Subfile {
    /// Reads the header of a subfile in either layout.
    pub(super) fn open(files: &dyn Files, file: usize) -> Result<Self> {
        let size = files.size(file)?;
        let start = bytes(files, file, 0, size.min(8))?;
        if start != hdf5::SIGNATURE {
            let header = read_header(files, file, Dialect::default())?;
            let records = records(&header);
            return Ok(Subfile { file, header, records, endian: Endian::Big, blobs: None });
        }
        let place = hdf5::bytes_of(files, file, "header_blob")?;
        let blobs = hdf5::bytes_of(files, file, "data_blob")?;
        let start = bytes(files, file, place.start, place.end - place.start)?;
        let (header, endian) = native(&start)
            .map_err(|why| Error::corrupt(files.name(file), format!("header_blob: {why}")))?;
        let records = records(&header);
        Ok(Subfile { file, header, records, endian, blobs: Some(blobs) })
    }

    /// Whether it is an HDF5 file.
    pub(super) fn is_hdf5(&self) -> bool {
        self.blobs.is_some()
    }

    /// Reads its tables; `authority` says whether variables that are not decomposed are taken from
    /// it, too.
    pub(super) fn tables(
        &self,
        files: &dyn Files,
        described: &Described,
        authority: bool,
    ) -> Result<(Storage, Vec<Table>)> {
        match &self.blobs {
            None => self.tables_of_variables(files, described, authority),
            Some(range) => {
                let (blobs, tables) = Blobs::read(files, self, described, range)?;
                Ok((Storage::Blobs(blobs), tables))
            }
        }
    }

    fn corrupt(&self, files: &dyn Files, what: impl Into<String>) -> Error {
        Error::corrupt(files.name(self.file), what)
    }

    fn tables_of_variables(
        &self,
        files: &dyn Files,
        described: &Described,
        authority: bool,
    ) -> Result<(Storage, Vec<Table>)> {
        let layout =
            Layout::of(&self.header).map_err(|why| self.corrupt(files, why.to_string()))?;
        self.check_size(files, described, &layout, authority)?;
        let mut tables = Vec::new();
        for (k, stored) in described.tables.iter().enumerate() {
            let read = |index: usize| {
                let slot = layout.slots[stored.variables[index]];
                bytes(files, self.file, slot.begin, slot.size)
            };
            let columns = [read(0)?, read(1)?, read(2)?, read(3)?, read(4)?];
            let table = table(&described.decompositions[k], &columns, stored.most_requests);
            let table = table.map_err(|why| self.corrupt(files, format!("D{}: {why}", k + 1)))?;
            let elements: u64 = table.blobs.iter().map(|blob| blob.count).sum();
            if elements > stored.elements {
                let what = format!("D{}: {elements} elements of {}", k + 1, stored.elements);
                return Err(self.corrupt(files, what));
            }
            tables.push(table);
        }
        Ok((Storage::Variables(layout), tables))
    }

    /// A file that ends before data that its header describes is truncated.
    fn check_size(
        &self,
        files: &dyn Files,
        described: &Described,
        layout: &Layout,
        authority: bool,
    ) -> Result<()> {
        let size = files.size(self.file)?;
        let tables = described.tables.iter().flat_map(|tables| tables.variables);
        let needed = |stored: &&super::headers::Stored| authority || stored.decomposition.is_some();
        let data = described.stored.iter().filter(needed).map(|stored| stored.variable);
        for id in tables.chain(data) {
            let slot = layout.slots[id];
            let last = if slot.records { self.records.checked_sub(1) } else { Some(0) };
            let Some(last) = last else { continue };
            let end = layout.offset_of(id, last).and_then(|begin| begin.checked_add(slot.size));
            if end.is_none_or(|end| end > size) {
                let name = &self.header.variables[id].name;
                let what = format!(
                    "truncated: {size} bytes, the data of {name} end at {}",
                    end.unwrap_or(u64::MAX)
                );
                return Err(Error::new(files.name(self.file), Kind::Truncated, what));
            }
        }
        Ok(())
    }
}

/// Reads a header in the byte order of the machine that wrote it. The list that follows the number
/// of records shows that order.
fn native(bytes: &[u8]) -> std::result::Result<(Header, Endian), cdf::Error> {
    let big = cdf::parse_as(bytes, Dialect::default());
    if let Ok(header) = big {
        return Ok((header, Endian::Big));
    }
    let endian = Endian::Little;
    let header = cdf::parse_as(bytes, Dialect { endian, ..Dialect::default() })?;
    Ok((header, endian))
}

/// A decomposition from its five variables.
fn table(
    decomposition: &Decomposition,
    columns: &[Vec<u8>; 5],
    most: u64,
) -> std::result::Result<Table, String> {
    let list = |column: usize| Numbers { bytes: &columns[column], endian: Endian::Big };
    let mut table = Table::default();
    let mut next = 0_u64;
    for blob in 0..columns[0].len() / 4 {
        let named = |why: &str| format!("blob {blob} {why}");
        let number = |value: Option<i64>| {
            let value = value.and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| named("has a negative number of elements or requests"))
        };
        let requests = number(list(0).int(blob))?;
        let (start, count) = (number(list(1).long(blob))?, number(list(2).long(blob))?);
        if requests > most {
            return Err(named(&format!("has {requests} requests of at most {most}")));
        }
        if start != next {
            return Err(named(&format!("begins at element {start}, not at {next}")));
        }
        next = next.checked_add(count).ok_or_else(|| named("has too many elements"))?;
        let row = |column: usize| {
            let width = usize::try_from(most).unwrap_or(0) * 4;
            let bytes = columns[column].get(blob * width..(blob + 1) * width).unwrap_or(&[]);
            Numbers { bytes, endian: Endian::Big }
        };
        let requests = usize::try_from(requests).unwrap_or(usize::MAX);
        let row = Row { requests, start, count, offsets: row(3), lengths: row(4) };
        table.blobs.push(decomposition.blob(&row).map_err(|why| named(&why))?);
        table.requests += requests as u64;
    }
    Ok(table)
}

impl Storage {
    /// Where a blob's elements of a variable of decomposition `k` begin in the subfile.
    pub(super) fn decomposed(
        &self,
        variable: usize,
        record: u64,
        blob: usize,
        tables: &[Table],
        k: usize,
    ) -> Option<u64> {
        match self {
            Storage::Variables(layout) => {
                let start = tables.get(k)?.blobs.get(blob)?.start;
                let before = start.checked_mul(layout.slots.get(variable)?.element)?;
                layout.offset_of(variable, record)?.checked_add(before)
            }
            Storage::Blobs(blobs) => blobs.decomposed(variable, record, blob, tables, k),
        }
    }

    /// Where a variable that is not decomposed begins, in the subfile from which it is taken.
    pub(super) fn whole(&self, variable: usize, record: u64, tables: &[Table]) -> Option<u64> {
        match self {
            Storage::Variables(layout) => layout.offset_of(variable, record),
            Storage::Blobs(blobs) => blobs.whole(variable, record, tables),
        }
    }
}

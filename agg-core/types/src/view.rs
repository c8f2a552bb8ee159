//! A file view: which file bytes a rank sees, and in which order (MPI-4.1, 14.3).

use crate::datatype::decode::Reader;
use crate::datatype::digest::Digest;
use crate::datatype::encode::unsigned as encode_number;
use crate::datatype::{Cursor, Datatype, Rows};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;

/// The data representation of a file (MPI-4.1, 14.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Representation {
    /// Bytes as in memory.
    #[default]
    Native,
    /// Readable in the same MPI environment; here the bytes as in memory.
    Internal,
    /// The standard's big-endian representation.
    External32,
    /// A representation that the program registered under this name.
    User(String),
}

impl Representation {
    /// Number and name in the wire form.
    fn parts(&self) -> (u8, &str) {
        match self {
            Representation::Native => (0, ""),
            Representation::Internal => (1, ""),
            Representation::External32 => (2, ""),
            Representation::User(name) => (3, name),
        }
    }
}

/// Displacement, etype and filetype of an open file. Cheap to clone.
///
/// Positions count the data bytes that the view shows, from 0; offsets are absolute file bytes.
/// Etype and filetype already have the extents of the file's representation.
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype: Datatype,
    filetype: Datatype,
    representation: Representation,
}

impl Default for View {
    fn default() -> Self {
        Self::bytes()
    }
}

fn bad(text: String) -> Error {
    Error::new(ErrorClass::Arg, text)
}

/// A type that MPI forbids in a view. The standard names no class for it; programs and test suites
/// expect the one that ROMIO has always returned.
fn forbidden(text: String) -> Error {
    Error::new(ErrorClass::Io, text)
}

impl View {
    /// A view that starts at file byte `displacement`; `writable` says whether the file was opened
    /// for writing, where overlapping regions are erroneous.
    ///
    /// # Errors
    ///
    /// Class `Arg` for a filetype that is not made of whole etypes; `Io` for types that have
    /// negative or decreasing displacements, a negative extent, or (if `writable`) overlapping
    /// regions.
    pub fn new(
        displacement: u64,
        etype: Datatype,
        filetype: Datatype,
        representation: Representation,
        writable: bool,
    ) -> Result<Self> {
        if displacement > i64::MAX as u64 {
            return Err(bad(format!("view: displacement {displacement} is too large")));
        }
        let (etype_size, size) = (etype.size(), filetype.size());
        if size.checked_rem(etype_size).unwrap_or(size) != 0 {
            return Err(bad(format!(
                "view: the filetype's {size} data bytes are no multiple of the etype's {etype_size}"
            )));
        }
        for (name, datatype) in [("etype", &etype), ("filetype", &filetype)] {
            check(name, datatype, writable)?;
        }
        Ok(Self { displacement, etype, filetype, representation })
    }

    /// The view that a file has after opening: all of its bytes in order.
    #[inline]
    pub fn bytes() -> Self {
        Self {
            displacement: 0,
            etype: Datatype::bytes(1),
            filetype: Datatype::bytes(1),
            representation: Representation::Native,
        }
    }

    /// The same view, moved by `by` bytes in the file, modulo 2^64.
    #[inline]
    pub fn moved(&self, by: u64) -> Self {
        Self { displacement: self.displacement.wrapping_add(by), ..self.clone() }
    }

    /// First file byte of the view.
    #[inline]
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The unit of positions that MPI programs see.
    #[inline]
    pub fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// The pattern that is repeated from the displacement on.
    #[inline]
    pub fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// How data bytes are represented in the file.
    #[inline]
    pub fn representation(&self) -> &Representation {
        &self.representation
    }

    /// Data bytes of one etype; 1 for an etype without data, so that dividing by it is always
    /// possible. Views of such an etype are empty.
    #[inline]
    pub fn etype_size(&self) -> u64 {
        self.etype.size().max(1)
    }

    /// Whether the view shows no byte at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filetype.size() == 0
    }

    /// The file byte of data byte `position`; saturates at `i64::MAX`.
    #[inline]
    pub fn offset_at(&self, position: u64) -> u64 {
        let within = u64::try_from(self.filetype.offset_at(position)).unwrap_or(0);
        self.displacement.saturating_add(within).min(i64::MAX as u64)
    }

    /// Number of data bytes that lie below file byte `offset`, for an
    /// [aggregatable](View::is_aggregatable) view.
    #[inline]
    pub fn data_before(&self, offset: u64) -> u64 {
        match i64::try_from(offset.saturating_sub(self.displacement)) {
            Ok(within) => self.filetype.data_before(within),
            Err(_) => self.filetype.data_before(i64::MAX),
        }
    }

    /// The file bytes of `len` data bytes from `position` on, in view order, neighbours merged.
    ///
    /// Extents may reach beyond `i64::MAX`, where no file can; bytes at offsets beyond 64 bits are
    /// left out.
    #[inline]
    pub fn extents(&self, position: u64, len: u64) -> Extents {
        Extents {
            displacement: self.displacement,
            cursor: self.filetype.cursor(u64::MAX, position),
            left: len,
        }
    }

    /// As [`View::extents`], with equal runs at equal distances taken together.
    #[inline]
    pub fn rows(&self, position: u64, len: u64) -> FileRows {
        FileRows(self.extents(position, len))
    }

    /// The smallest range of file bytes that holds `len` data bytes from `position` on; for views
    /// that are not aggregatable it may be larger.
    pub fn span(&self, position: u64, len: u64) -> Extent {
        let size = self.filetype.size();
        if len == 0 || size == 0 {
            return Extent::new(self.offset_at(position), 0);
        }
        let last = position.saturating_add(len - 1);
        if self.is_aggregatable() {
            return Extent::between(self.offset_at(position), self.offset_at(last) + 1);
        }
        let tile = |position: u64| {
            let copy = i128::from(position / size) * i128::from(self.filetype.extent());
            copy + i128::from(self.displacement)
        };
        let low = tile(position) + i128::from(self.filetype.true_lb());
        let high = tile(last) + i128::from(self.filetype.true_ub());
        let byte = |at: i128| u64::try_from(at.clamp(0, i64::MAX.into())).unwrap_or(0);
        Extent::between(byte(low), byte(high))
    }

    /// Whether `len` data bytes from `position` on are one run in the file.
    #[inline]
    pub fn is_contiguous_at(&self, position: u64, len: u64) -> bool {
        if len == 0 || self.is_contiguous() {
            return true;
        }
        self.filetype.cursor(u64::MAX, position).run().is_some_and(|(_, run)| run >= len)
    }

    /// The largest known `n` such that all runs of `len` data bytes from `position` on start and
    /// end at multiples of 2 to the power of `n`.
    #[inline]
    pub fn grain(&self, position: u64, len: u64) -> u32 {
        let Some(last) = len.checked_sub(1).and_then(|more| position.checked_add(more)) else {
            return 63;
        };
        let ends = self.offset_at(position) | (self.offset_at(last) + 1);
        let outer = ends.trailing_zeros();
        if self.is_contiguous_at(position, len) {
            return outer;
        }
        let start = self.displacement.wrapping_add_signed(self.filetype.first_displacement());
        outer.min(start.trailing_zeros()).min(self.filetype.grain())
    }

    /// Number of runs in the file of `len` data bytes from `position` on. Exact for few runs and
    /// for whole copies of the filetype, in proportion otherwise: no call walks along 10^8 pieces.
    pub fn pieces(&self, position: u64, len: u64) -> u64 {
        const FEW: usize = 1024;
        let size = self.filetype.size();
        if len == 0 || size == 0 {
            return 0;
        }
        if self.is_contiguous_at(position, len) {
            return 1;
        }
        let (copies, pieces) = (len / size, self.filetype.pieces());
        if position.is_multiple_of(size) && len.is_multiple_of(size) {
            let meet = self.offset_at(size - 1) + 1 == self.offset_at(size);
            let seams = if meet { copies - 1 } else { 0 };
            return copies.saturating_mul(pieces) - seams;
        }
        let walked = self.extents(position, len).take(FEW).count();
        if walked < FEW {
            return walked as u64;
        }
        let share = u128::from(len) * u128::from(pieces) / u128::from(size);
        u64::try_from(share).unwrap_or(u64::MAX).clamp(FEW as u64, len)
    }

    /// Whether any data bytes in a row are one run in the file.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.filetype.is_contiguous()
    }

    /// Whether file offsets always grow with the position, so that a range of file bytes holds a
    /// range of data bytes.
    #[inline]
    pub fn is_aggregatable(&self) -> bool {
        self.filetype.is_ascending()
    }

    /// Another view and position that show the same `len` bytes as `position` of this one, but in
    /// [ascending order](View::is_aggregatable) from the first copy of the filetype to the last.
    ///
    /// That is possible where the copies go back or overlap, but the bytes lie in one copy, which
    /// does not. `None` if it is not, or not needed. PnetCDF makes such filetypes: the file's
    /// header and a part of an array, with the bounds of the array.
    pub fn ascending_at(&self, position: u64, len: u64) -> Option<(View, u64)> {
        let filetype = &self.filetype;
        if self.is_aggregatable() || !filetype.is_monotone() || filetype.has_overlap() {
            return None;
        }
        let copy = position.checked_div(filetype.size())?;
        if copy != position.checked_add(len.checked_sub(1)?)? / filetype.size() {
            return None;
        }
        let before = copy.checked_mul(u64::try_from(filetype.extent()).ok()?)?;
        let displacement = self.displacement.checked_add(before)?;
        i64::try_from(displacement).ok()?;
        let filetype = filetype.resized(0, filetype.true_extent()).ok()?;
        Some((Self { displacement, filetype, ..self.clone() }, position % self.filetype.size()))
    }

    /// A digest of the content: equal on all ranks for equal views.
    #[inline]
    pub fn hash(&self) -> u128 {
        let (kind, name) = self.representation.parts();
        Digest::new(7)
            .word(kind.into())
            .bytes(name.as_bytes())
            .word(self.displacement)
            .wide(self.etype.hash())
            .wide(self.filetype.hash())
            .finish()
    }

    /// The view as bytes, for [`View::decode`] on any rank.
    #[inline]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (kind, name) = self.representation.parts();
        out.push(kind);
        encode_number(&mut out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
        encode_number(&mut out, self.displacement);
        out.extend(self.etype.encode());
        out.extend(self.filetype.encode());
        out
    }

    /// The view that [`View::encode`] turned into `bytes`. They need not be trusted.
    ///
    /// # Errors
    ///
    /// For damaged bytes, and as [`View::new`] for a file that is only read.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.byte()?;
        let len = reader.unsigned()?;
        let name = String::from_utf8_lossy(reader.bytes(len)?).into_owned();
        let representation = match kind {
            0 => Representation::Native,
            1 => Representation::Internal,
            2 => Representation::External32,
            3 => Representation::User(name),
            _ => return Err(damaged("an unknown representation")),
        };
        let displacement = reader.unsigned()?;
        let (etype, filetype) = (Datatype::read(&mut reader)?, Datatype::read(&mut reader)?);
        if !reader.0.is_empty() {
            return Err(damaged("bytes are left over"));
        }
        View::new(displacement, etype, filetype, representation, false)
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorClass::Intern, format!("view of another rank: {what}"))
}

/// The demands of MPI-4.1, 14.1.1 and 14.3 on etype and filetype.
fn check(name: &str, datatype: &Datatype, writable: bool) -> Result<()> {
    if datatype.true_lb() < 0 {
        return Err(forbidden(format!("view: the {name} has negative displacements")));
    }
    if datatype.extent() < 0 {
        return Err(forbidden(format!("view: the {name} has a negative extent")));
    }
    if !datatype.is_monotone() && (writable || !runs_start_in_order(datatype)) {
        return Err(forbidden(format!(
            "view: the {name}'s displacements are not in ascending order"
        )));
    }
    if writable && datatype.has_overlap() {
        return Err(forbidden(format!(
            "view: the {name} has overlapping regions, and the file is open for writing"
        )));
    }
    Ok(())
}

/// Whether no run of bytes starts before the one that precedes it. A view may show such bytes of a
/// file that is only read, although elements of overlapping runs are then out of order. Types of
/// very many runs are not inspected to their end, but rejected.
fn runs_start_in_order(datatype: &Datatype) -> bool {
    const LIMIT: usize = 1 << 20;
    let mut cursor = datatype.cursor(1, 0);
    let (mut start, mut end) = (i64::MIN, i64::MIN);
    for _ in 0..LIMIT {
        let Some((at, len)) = cursor.run() else { return true };
        if at != end {
            if at < start {
                return false;
            }
            start = at;
        }
        end = at.saturating_add_unsigned(len);
        cursor.advance(len);
    }
    false
}

/// Iterates over the file bytes of a part of a view; made by [`View::extents`].
#[derive(Clone, Debug)]
pub struct Extents {
    displacement: u64,
    cursor: Cursor,
    left: u64,
}

impl Iterator for Extents {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let (at, len) = self.cursor.run().filter(|_| self.left > 0)?;
        let offset = self.displacement.checked_add(u64::try_from(at).ok()?)?;
        let len = len.min(self.left);
        self.cursor.advance(len);
        self.left -= len;
        Some(Extent::new(offset, len))
    }
}

/// Iterates over the file bytes of a part of a view, regular runs together; made by
/// [`View::rows`]. Displacements in the items are file offsets; a single run has count 1.
#[derive(Clone, Debug)]
pub struct FileRows(Extents);

impl Iterator for FileRows {
    type Item = Rows;

    fn next(&mut self) -> Option<Rows> {
        let FileRows(Extents { displacement, cursor, left }) = self;
        if let Some(rows) = cursor.take_rows(*left) {
            *left -= rows.len * rows.count;
            let offset = i64::try_from(*displacement).ok()?.checked_add(rows.displacement)?;
            return Some(Rows { displacement: offset, ..rows });
        }
        let Extent { offset, len } = self.0.next()?;
        let displacement = i64::try_from(offset).ok()?;
        Some(Rows { displacement, len, stride: 0, count: 1 })
    }
}

mod parts;
#[cfg(test)]
mod tests;

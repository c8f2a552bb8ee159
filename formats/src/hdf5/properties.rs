//! Fill values and filters of a dataset.

use super::cursor::Cursor;

/// The value of elements that were never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    Zero,
    /// This element.
    Value(Vec<u8>),
    /// Anything.
    Undefined,
}

/// When space is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// When the dataset is made.
    Early,
    /// When something is written first.
    Late,
    /// Chunk by chunk.
    Incremental,
    /// Not said.
    Unknown,
}

/// Fill values of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filling {
    /// The value.
    pub value: Fill,
    /// When space is allocated.
    pub allocation: Allocation,
    /// Whether allocated space is never filled.
    pub never: bool,
}

impl Default for Filling {
    fn default() -> Self {
        Filling { value: Fill::Zero, allocation: Allocation::Unknown, never: false }
    }
}

fn allocation(code: u8) -> Allocation {
    match code & 3 {
        1 => Allocation::Early,
        2 => Allocation::Late,
        3 => Allocation::Incremental,
        _ => Allocation::Unknown,
    }
}

/// The value behind its size; none is zeros.
fn value(cursor: &mut Cursor<'_>) -> Option<Fill> {
    let size = cursor.four()?;
    // HDF5 1.6 writes -1 for a value that is undefined.
    if size == u32::MAX {
        return Some(Fill::Undefined);
    }
    let bytes = cursor.take(size as usize)?;
    Some(if bytes.is_empty() { Fill::Zero } else { Fill::Value(bytes.to_vec()) })
}

/// The message that HDF5 before 1.6 wrote.
pub(super) fn old_fill(mut cursor: Cursor<'_>) -> Option<Filling> {
    Some(Filling { value: value(&mut cursor)?, ..Filling::default() })
}

/// The message of a fill value.
pub(super) fn fill(mut cursor: Cursor<'_>) -> Option<Filling> {
    const NEVER: u8 = 1;
    let version = cursor.byte()?;
    if version == 3 {
        let flags = cursor.byte()?;
        let value = match flags >> 4 & 3 {
            0 => Fill::Zero,
            1 => Fill::Undefined,
            _ => value(&mut cursor)?,
        };
        let never = flags >> 2 & 3 == NEVER;
        return Some(Filling { value, allocation: allocation(flags), never });
    }
    let (time, write, defined) = (cursor.byte()?, cursor.byte()?, cursor.byte()?);
    let value = match (version, defined) {
        (1, _) | (2, 1) => value(&mut cursor)?,
        (2, 0) => Fill::Undefined,
        _ => return None,
    };
    Some(Filling { value, allocation: allocation(time), never: write == NEVER })
}

/// A filter that chunks pass through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its registered number.
    pub id: u16,
    /// The name in the file; often empty.
    pub name: String,
    /// Whether chunks may be stored without it.
    pub optional: bool,
    /// Its parameters.
    pub parameters: Vec<u32>,
}

impl Filter {
    /// The name of the filter.
    #[must_use]
    pub fn title(&self) -> String {
        let known = match self.id {
            1 => "deflate",
            2 => "shuffle",
            3 => "fletcher32",
            4 => "szip",
            5 => "nbit",
            6 => "scaleoffset",
            307 => "bzip2",
            32000 => "lzf",
            32001 => "blosc",
            32004 => "lz4",
            32008 => "bitshuffle",
            32013 => "zfp",
            32015 => "zstd",
            _ if self.name.is_empty() => return format!("filter {}", self.id),
            _ => return self.name.clone(),
        };
        known.into()
    }
}

/// Filters that a dataset has at most.
const MOST_FILTERS: u8 = 32;

/// The message of a filter pipeline.
pub(super) fn filters(mut cursor: Cursor<'_>) -> Option<Vec<Filter>> {
    let (version, count) = (cursor.byte()?, cursor.byte()?);
    cursor.take(match version {
        1 => 6,
        2 => 0,
        _ => return None,
    })?;
    let one = |_| filter(version, &mut cursor);
    if count > MOST_FILTERS { None } else { (0..count).map(one).collect() }
}

fn filter(version: u8, cursor: &mut Cursor<'_>) -> Option<Filter> {
    let id = cursor.two()?;
    let named = version == 1 || id >= 256;
    let length = if named { cursor.two()? } else { 0 };
    let (flags, count) = (cursor.two()?, cursor.two()?);
    let padded = if version == 1 { length.checked_next_multiple_of(8)? } else { length };
    let name = cursor.take(padded.into())?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let parameters = (0..count).map(|_| cursor.four()).collect::<Option<_>>()?;
    cursor.take(if version == 1 && count % 2 == 1 { 4 } else { 0 })?;
    let name = String::from_utf8_lossy(name).into_owned();
    Some(Filter { id, name, optional: flags & 1 != 0, parameters })
}

//! Reads a header. Allocations are bounded by the bytes at hand.

use super::header::{Attribute, Dimension, Header, Name, Records, Type, Variable, Version};
use super::{Endian, padded};
use std::fmt;

/// The tag of a list of dimensions.
pub(super) const DIMENSIONS: u32 = 0x0A;
/// The tag of a list of variables.
pub(super) const VARIABLES: u32 = 0x0B;
/// The tag of a list of attributes.
pub(super) const ATTRIBUTES: u32 = 0x0C;
/// Variables have no more dimensions than this (`NC_MAX_VAR_DIMS`).
const MOST_DIMENSIONS: u64 = 1024;

/// Why a header cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The header has at least so many bytes.
    NeedMore(u64),
    /// No header has such bytes.
    Corrupt {
        /// Where the offending item begins.
        offset: u64,
        /// The problem, in words.
        what: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NeedMore(least) => write!(to, "the header has at least {least} bytes"),
            Error::Corrupt { offset, what } => write!(to, "header, byte {offset}: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// How a header may differ from the standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// The order of bytes.
    pub endian: Endian,
    /// Whether several dimensions may be without limit, as in subfiles of PnetCDF.
    pub many_unlimited: bool,
}

/// Reads the header at the beginning of a file.
///
/// # Errors
///
/// If more bytes are needed, or these are no header.
pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
    parse_as(bytes, Dialect::default())
}

/// As [`parse`], of a dialect.
///
/// # Errors
///
/// If more bytes are needed, or these are no header.
pub fn parse_as(bytes: &[u8], dialect: Dialect) -> Result<Header, Error> {
    let mut reader = Reader { bytes, at: 0, version: Version::Classic, endian: dialect.endian };
    reader.header(dialect)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    version: Version,
    endian: Endian,
}

impl<'a> Reader<'a> {
    fn corrupt<T>(&self, offset: usize, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Corrupt { offset: offset as u64, what: what.into() })
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Error> {
        let Some(end) = (self.at as u64).checked_add(count) else {
            return self.corrupt(self.at, format!("{count} bytes are more than a file has"));
        };
        let found = usize::try_from(end).ok().and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or(Error::NeedMore(end))?;
        self.at += found.len();
        Ok(found)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Error> {
        let found = self.take(bytes as u64)?.iter();
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(match self.endian {
            Endian::Big => found.fold(0, add),
            Endian::Little => found.rev().fold(0, add),
        })
    }

    fn word(&mut self) -> Result<u32, Error> {
        // Four bytes are no more than 32 bits.
        self.number(4).map(|number| number as u32)
    }

    /// A number that must not have its highest bit set.
    fn non_negative(&mut self, bytes: usize, what: &str) -> Result<u64, Error> {
        let at = self.at;
        let number = self.number(bytes)?;
        if number >> (8 * bytes - 1) != 0 {
            return self.corrupt(at, format!("{what} is negative"));
        }
        Ok(number)
    }

    fn count(&mut self, what: &str) -> Result<u64, Error> {
        self.non_negative(self.version.count_bytes(), what)
    }

    fn header(&mut self, dialect: Dialect) -> Result<Header, Error> {
        let magic = self.take(4)?;
        self.version = match magic {
            b"CDF\x01" => Version::Classic,
            b"CDF\x02" => Version::Offset64,
            b"CDF\x05" => Version::Data64,
            _ => return self.corrupt(0, "does not begin with CDF and 1, 2 or 5"),
        };
        let at = self.at;
        let records = match self.number(self.version.count_bytes())? {
            number if number == u64::MAX >> (64 - 8 * self.version.count_bytes()) => {
                Records::Streaming
            }
            number if number >> (8 * self.version.count_bytes() - 1) != 0 => {
                return self.corrupt(at, "the number of records is negative");
            }
            number => Records::Known(number),
        };
        let dimensions = self.list(DIMENSIONS, "dimensions", Self::dimension)?;
        self.check_dimensions(&dimensions, dialect)?;
        let attributes = self.list(ATTRIBUTES, "attributes", Self::attribute)?;
        let variables = self.list(VARIABLES, "variables", |reader| reader.variable(&dimensions))?;
        Ok(Header { version: self.version, records, dimensions, attributes, variables })
    }

    fn check_dimensions(&self, found: &[Dimension], dialect: Dialect) -> Result<(), Error> {
        let mut unlimited = found.iter().filter(|found| found.length == 0);
        let names = (unlimited.next(), unlimited.next());
        if let ((Some(first), Some(second)), false) = (names, dialect.many_unlimited) {
            let what = format!("two dimensions without limit, {} and {}", first.name, second.name);
            return self.corrupt(self.at, what);
        }
        Ok(())
    }

    /// A list: its tag, the number of its items, and the items. Two zeros stand for no list.
    fn list<T>(
        &mut self,
        tag: u32,
        what: &str,
        item: impl Fn(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let at = self.at;
        let found = self.word()?;
        let count = self.count(&format!("the number of {what}"))?;
        if found != tag && (found != 0 || count != 0) {
            return self.corrupt(at, format!("{found:#x} where a list of {what} begins"));
        }
        let least = self.least_bytes(tag);
        let end = count.checked_mul(least).and_then(|bytes| bytes.checked_add(self.at as u64));
        match end {
            None => return self.corrupt(at, format!("{count} {what}")),
            Some(end) if end > self.bytes.len() as u64 => return Err(Error::NeedMore(end)),
            Some(_) => {}
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// The fewest bytes of an item of a list.
    fn least_bytes(&self, tag: u32) -> u64 {
        let (count, offset) = (self.version.count_bytes(), self.version.offset_bytes());
        (match tag {
            DIMENSIONS => 2 * count,
            ATTRIBUTES => 2 * count + 4,
            _ => 4 * count + 8 + offset,
        }) as u64
    }

    /// Bytes, and the padding to a multiple of four behind them. Old writers left anything there.
    fn padded_bytes(&mut self, count: u64) -> Result<&'a [u8], Error> {
        let Some(whole) = padded(count) else {
            return self.corrupt(self.at, format!("{count} bytes are more than a file has"));
        };
        let all = self.take(whole)?;
        // `count` is at most the number of bytes that were taken.
        Ok(all.get(..count as usize).unwrap_or(all))
    }

    fn name(&mut self) -> Result<Name, Error> {
        let count = self.count("the length of a name")?;
        Ok(Name(self.padded_bytes(count)?.to_vec()))
    }

    fn dimension(&mut self) -> Result<Dimension, Error> {
        let name = self.name()?;
        let length = self.count("the length of a dimension")?;
        Ok(Dimension { name, length })
    }

    fn kind(&mut self) -> Result<Type, Error> {
        let at = self.at;
        let number = self.word()?;
        match Type::from_number(number, self.version) {
            Some(kind) => Ok(kind),
            None => {
                let version = self.version.number();
                self.corrupt(at, format!("type {number}, which CDF-{version} does not have"))
            }
        }
    }

    fn attribute(&mut self) -> Result<Attribute, Error> {
        let name = self.name()?;
        let kind = self.kind()?;
        let at = self.at;
        let count = self.count("the number of values")?;
        let Some(bytes) = count.checked_mul(kind.size()) else {
            return self.corrupt(at, format!("{count} values"));
        };
        let mut values = self.padded_bytes(bytes)?.to_vec();
        if self.endian == Endian::Little {
            swap(&mut values, kind.size());
        }
        Ok(Attribute { name, kind, values })
    }

    fn variable(&mut self, dimensions: &[Dimension]) -> Result<Variable, Error> {
        let name = self.name()?;
        let ids = self.dimension_ids(&name, dimensions)?;
        let attributes = self.list(ATTRIBUTES, "attributes", Self::attribute)?;
        let kind = self.kind()?;
        let told_size = self.number(self.version.count_bytes())?;
        let begin = self.non_negative(self.version.offset_bytes(), "where data begin")?;
        Ok(Variable { name, dimensions: ids, attributes, kind, told_size, begin })
    }

    fn dimension_ids(
        &mut self,
        name: &Name,
        dimensions: &[Dimension],
    ) -> Result<Vec<usize>, Error> {
        let at = self.at;
        let count = self.count("the number of dimensions")?;
        if count > MOST_DIMENSIONS {
            return self.corrupt(at, format!("{name} has {count} dimensions"));
        }
        let mut ids = Vec::new();
        for index in 0..count {
            let at = self.at;
            let id = self.count("a dimension")?;
            let found = usize::try_from(id).ok().and_then(|id| Some((id, dimensions.get(id)?)));
            let Some((id, dimension)) = found else {
                let what = format!("{name} has dimension {id} of {}", dimensions.len());
                return self.corrupt(at, what);
            };
            if dimension.length == 0 && index > 0 {
                let what = format!(
                    "{name}: {}, which has no limit, is not its first dimension",
                    dimension.name
                );
                return self.corrupt(at, what);
            }
            ids.push(id);
        }
        Ok(ids)
    }
}

/// Turns each element round.
pub(crate) fn swap(values: &mut [u8], size: u64) {
    match size {
        2 => values.as_chunks_mut::<2>().0.iter_mut().for_each(|value| value.reverse()),
        4 => values.as_chunks_mut::<4>().0.iter_mut().for_each(|value| value.reverse()),
        8 => values.as_chunks_mut::<8>().0.iter_mut().for_each(|value| value.reverse()),
        _ => {}
    }
}

//! Writes a header: one that was read gives the same bytes again.

use super::Endian;
use super::header::{Attribute, Header, Records, Version};
use super::parse::{ATTRIBUTES, DIMENSIONS, VARIABLES, swap};
use std::fmt;

/// A number does not fit in this version of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritable(pub String);

impl fmt::Display for Unwritable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Unwritable {}

struct Writer {
    bytes: Vec<u8>,
    version: Version,
    endian: Endian,
}

impl Header {
    /// Bytes of the header in a file.
    #[must_use]
    pub fn size(&self) -> u64 {
        let count = self.version.count_bytes() as u64;
        let pad = |len: usize| (len as u64).next_multiple_of(4);
        let attributes = |list: &[Attribute]| {
            let each =
                |one: &Attribute| 2 * count + 4 + pad(one.name.0.len()) + pad(one.values.len());
            4 + count + list.iter().map(each).sum::<u64>()
        };
        let dimensions = self.dimensions.iter().map(|one| 2 * count + pad(one.name.0.len()));
        let variables = self.variables.iter().map(|one| {
            let fixed = 3 * count + 4 + self.version.offset_bytes() as u64;
            let ids = count * one.dimensions.len() as u64;
            fixed + ids + pad(one.name.0.len()) + attributes(&one.attributes)
        });
        let lists = 2 * (4 + count) + attributes(&self.attributes);
        4 + count + lists + dimensions.sum::<u64>() + variables.sum::<u64>()
    }

    /// The header as a file has it.
    ///
    /// # Errors
    ///
    /// If a number does not fit in this version.
    pub fn write(&self) -> Result<Vec<u8>, Unwritable> {
        self.write_as(Endian::Big)
    }

    /// As [`Header::write`], in an order of bytes.
    ///
    /// # Errors
    ///
    /// If a number does not fit in this version.
    pub fn write_as(&self, endian: Endian) -> Result<Vec<u8>, Unwritable> {
        let mut writer = Writer { bytes: Vec::new(), version: self.version, endian };
        writer.header(self)?;
        Ok(writer.bytes)
    }
}

impl Writer {
    fn number(&mut self, number: u64, bytes: usize) -> Result<(), Unwritable> {
        if bytes < 8 && number >> (8 * bytes) != 0 {
            let version = self.version.number();
            return Err(Unwritable(format!("{number} does not fit in a header of CDF-{version}")));
        }
        let all = number.to_be_bytes();
        let used = all.iter().skip(8 - bytes);
        match self.endian {
            Endian::Big => self.bytes.extend(used),
            Endian::Little => self.bytes.extend(used.rev()),
        }
        Ok(())
    }

    fn count(&mut self, number: u64) -> Result<(), Unwritable> {
        if number >> (8 * self.version.count_bytes() - 1) != 0 {
            let version = self.version.number();
            return Err(Unwritable(format!("{number} is too large a count for CDF-{version}")));
        }
        self.number(number, self.version.count_bytes())
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn name(&mut self, name: &super::Name) -> Result<(), Unwritable> {
        self.count(name.0.len() as u64)?;
        self.padded(&name.0);
        Ok(())
    }

    /// The beginning of a list; one without items has no tag either.
    fn list(&mut self, tag: u32, len: usize) -> Result<(), Unwritable> {
        self.number(if len == 0 { 0 } else { tag.into() }, 4)?;
        self.count(len as u64)
    }

    fn header(&mut self, header: &Header) -> Result<(), Unwritable> {
        self.bytes.extend_from_slice(b"CDF");
        self.bytes.push(header.version.number());
        match header.records {
            Records::Known(number) => self.count(number)?,
            Records::Streaming => {
                self.bytes.extend(std::iter::repeat_n(0xFF, header.version.count_bytes()));
            }
        }
        self.list(DIMENSIONS, header.dimensions.len())?;
        for dimension in &header.dimensions {
            self.name(&dimension.name)?;
            self.count(dimension.length)?;
        }
        self.attributes(&header.attributes)?;
        self.list(VARIABLES, header.variables.len())?;
        for variable in &header.variables {
            self.name(&variable.name)?;
            self.count(variable.dimensions.len() as u64)?;
            for id in &variable.dimensions {
                self.count(*id as u64)?;
            }
            self.attributes(&variable.attributes)?;
            self.number(variable.kind as u64, 4)?;
            self.number(variable.told_size, self.version.count_bytes())?;
            self.number(variable.begin, self.version.offset_bytes())?;
        }
        Ok(())
    }

    fn attributes(&mut self, attributes: &[Attribute]) -> Result<(), Unwritable> {
        self.list(ATTRIBUTES, attributes.len())?;
        for attribute in attributes {
            self.name(&attribute.name)?;
            self.number(attribute.kind as u64, 4)?;
            self.count(attribute.values.len() as u64 / attribute.kind.size())?;
            let mut values = attribute.values.clone();
            if self.endian == Endian::Little {
                swap(&mut values, attribute.kind.size());
            }
            self.padded(&values);
        }
        Ok(())
    }
}

//! Where the variables of the canonical file lie, if that is not where PnetCDF puts them unless it
//! is told otherwise.
//!
//! A set that aggio writes of such a file says so in one attribute more, behind the three of
//! E3SM-IO: `canonical_layout`, a list of `int64` that has the version of the format, the bytes of
//! the file, and where each variable begins.

use crate::cdf::{Alignment, Attribute, Header, Layout, Records, Type, Version};

/// The attribute's name.
pub(super) const NAME: &str = "canonical_layout";
/// Its position among the attributes of a subfile.
const POSITION: usize = 3;

/// Where the variables of the canonical file lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) version: Version,
    /// Bytes of the file.
    pub(super) size: u64,
    /// Where each variable begins.
    pub(super) begins: Vec<u64>,
}

impl Places {
    /// The places in the header of a subfile; the error describes a malformed attribute.
    pub(super) fn told(subfile: &Header) -> Result<Option<Self>, String> {
        let Some(attribute) = subfile.attributes.get(POSITION).filter(|found| found.name == *NAME)
        else {
            return Ok(None);
        };
        let wrong = || format!("attribute {NAME} is no list of a version, a size and begins");
        let number = |bytes: &[u8; 8]| u64::try_from(i64::from_be_bytes(*bytes)).ok();
        let numbers = attribute.values.as_chunks::<8>().0.iter().map(number);
        let numbers: Option<Vec<u64>> = numbers.collect();
        let numbers = numbers.filter(|_| attribute.kind == Type::Int64).ok_or_else(wrong)?;
        let [version, size, begins @ ..] = numbers.as_slice() else { return Err(wrong()) };
        let version = match version {
            1 => Version::Classic,
            2 => Version::Offset64,
            5 => Version::Data64,
            _ => return Err(wrong()),
        };
        Ok(Some(Places { version, size: *size, begins: begins.to_vec() }))
    }

    /// The attribute with them; `None` if a number has more than 63 bits.
    pub(super) fn attribute(&self) -> Option<Attribute> {
        let numbers = [u64::from(self.version.number()), self.size];
        let mut values = Vec::new();
        for number in numbers.iter().chain(&self.begins) {
            values.extend(i64::try_from(*number).ok()?.to_be_bytes());
        }
        Some(Attribute { name: NAME.into(), kind: Type::Int64, values })
    }
}

/// The attributes of a subfile without the one with places.
pub(super) fn without(attributes: &[Attribute]) -> Vec<Attribute> {
    let is_told = |index: usize, one: &Attribute| index == POSITION && one.name == *NAME;
    let others = attributes.iter().enumerate().filter(|(index, one)| !is_told(*index, one));
    others.map(|(_, one)| one.clone()).collect()
}

/// Gives the variables of a canonical header that has so many records their places: those that are
/// told, or PnetCDF's own. Returns the bytes of the file; the error says why there are no places.
pub(super) fn assign(
    header: &mut Header,
    records: u64,
    told: Option<&Places>,
    usual: Alignment,
) -> Result<u64, String> {
    header.records = Records::Known(records);
    if let Some(told) = told {
        header.version = told.version;
    }
    header.assign(usual).map_err(|why| why.to_string())?;
    let Some(told) = told else {
        let layout = Layout::of(header).map_err(|why| why.to_string())?;
        return layout.end(records).map_err(|why| why.to_string());
    };
    if told.begins.len() != header.variables.len() {
        let (begins, variables) = (told.begins.len(), header.variables.len());
        return Err(format!("attribute {NAME} has {begins} begins for {variables} variables"));
    }
    let kinds = header
        .variables
        .iter()
        .flat_map(|one| one.attributes.iter().map(|own| own.kind).chain([one.kind]));
    let mut kinds = kinds.chain(header.attributes.iter().map(|own| own.kind));
    if kinds.any(|kind| Type::from_number(kind as u32, told.version).is_none()) {
        let version = told.version.number();
        return Err(format!("attribute {NAME} says CDF-{version}, which has not all of its types"));
    }
    for (variable, begin) in header.variables.iter_mut().zip(&told.begins) {
        variable.begin = *begin;
    }
    if told.size < header.size() {
        return Err(format!(
            "attribute {NAME} says {} bytes, fewer than the header has",
            told.size
        ));
    }
    Ok(told.size)
}

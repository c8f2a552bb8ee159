//! The content of the header of a master file.

use crate::cdf::{Attribute, Header, Variable};
use std::ops::Range;

/// The prefix of the names of all attributes that PnetCDF adds.
const PREFIX: &str = "_PnetCDF_SubFiling.";

/// How a variable is shared among subfiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    /// The dimension that is shared, as a position in the variable's list.
    pub(super) dimension: usize,
    /// The part of each subfile.
    pub(super) parts: Vec<Range<u64>>,
}

fn number(attribute: Option<&Attribute>) -> Option<usize> {
    match attribute?.ints()?[..] {
        [number] => usize::try_from(number).ok(),
        _ => None,
    }
}

/// How many subfiles a file has, if it is a master.
pub(crate) fn subfiles(header: &Header) -> Option<usize> {
    number(header.attribute(&format!("{PREFIX}num_subfiles")))
        .filter(|count| (1..=crate::MOST_FILES).contains(count))
}

fn without(attributes: &[Attribute]) -> Vec<Attribute> {
    let is_added = |name: &[u8]| name.starts_with(PREFIX.as_bytes());
    attributes.iter().filter(|attribute| !is_added(&attribute.name.0)).cloned().collect()
}

/// The header of the file that a master stands for, and which of its variables are shared.
///
/// # Errors
///
/// A description of the error in the header.
pub(super) fn canonical(
    master: &Header,
    count: usize,
) -> Result<(Header, Vec<Option<Shared>>), String> {
    let mut header = Header { attributes: without(&master.attributes), ..master.clone() };
    let mut shared = Vec::new();
    for (variable, stored) in header.variables.iter_mut().zip(&master.variables) {
        variable.attributes = without(&stored.attributes);
        shared.push(if stored.attribute(&format!("{PREFIX}num_subfiles")).is_some() {
            let (dimensions, found) = restore(master, stored, count)
                .map_err(|what| format!("{}: {what}", stored.name))?;
            variable.dimensions = dimensions;
            Some(found)
        } else {
            None
        });
    }
    Ok((header, shared))
}

/// The dimensions of a variable that is shared, and how.
fn restore(
    master: &Header,
    stored: &Variable,
    count: usize,
) -> Result<(Vec<usize>, Shared), String> {
    let attribute = |name: &str| stored.attribute(&format!("{PREFIX}{name}"));
    let ids = attribute("dimids_org").and_then(Attribute::ints).unwrap_or_default();
    let valid = |id: &i32| usize::try_from(*id).ok().filter(|id| *id < master.dimensions.len());
    let ids: Vec<usize> =
        ids.iter().map(valid).collect::<Option<_>>().ok_or("dimids_org are no dimensions")?;
    let length = |id: usize| master.dimensions[id].length;
    let dimension = number(attribute("par_dim_index"))
        .filter(|dimension| ids.get(*dimension).is_some_and(|id| length(*id) > 0))
        .ok_or("par_dim_index is none of its dimensions")?;
    if ids.iter().skip(1).any(|id| length(*id) == 0) {
        return Err("a dimension without limit is not its first".into());
    }
    if number(attribute("num_subfiles")) != Some(count) {
        return Err(format!("is not in {count} subfiles, as the file is"));
    }
    let name = &master.dimensions[ids[dimension]].name;
    let mut parts = Vec::new();
    let mut next = 0;
    for subfile in 0..count {
        let found =
            attribute(&format!("range({name}).subfile.{subfile}")).and_then(Attribute::ints);
        let part = match found.as_deref() {
            Some([low, high]) if *low >= 0 && high >= low => {
                u64::from(low.unsigned_abs())..u64::from(high.unsigned_abs()) + 1
            }
            _ => return Err(format!("the range of subfile {subfile} is no range")),
        };
        if part.start != next {
            return Err(format!(
                "the range of subfile {subfile} begins at {}, not {next}",
                part.start
            ));
        }
        next = part.end;
        parts.push(part);
    }
    let whole = length(ids[dimension]);
    if next != whole {
        return Err(format!("its ranges end at {next}, its dimension {name} at {whole}"));
    }
    Ok((ids, Shared { dimension, parts }))
}

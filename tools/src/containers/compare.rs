//! Differences between two netCDF files: dimensions, attributes, variables, values.

use crate::progress::Progress;
use aggio_formats::cdf::{Attribute, Header, Variable};
use aggio_formats::{Logical, Slab};

/// Bytes of a variable that are compared at a time.
const PIECE: u64 = 4 << 20;

/// Names, each with its description.
type Told = Vec<(String, String)>;

/// All differences, one line each; of values the first of each variable.
pub(super) fn differences(
    one: &Logical,
    other: &Logical,
    tell: Progress<'_>,
) -> Result<Vec<String>, String> {
    let mut done = 0;
    let (left, right) = (one.header(), other.header());
    let mut found = Vec::new();
    let shapes = |header: &Header| -> Told {
        let each = header.dimensions.iter();
        each.map(|dimension| (dimension.name.to_string(), dimension.length.to_string())).collect()
    };
    named("dimension", &shapes(left), &shapes(right), &mut found);
    attributes("", &left.attributes, &right.attributes, &mut found);
    if one.records() != other.records() {
        found.push(format!("{} records, {} records", one.records(), other.records()));
    }
    named("variable", &kinds(left), &kinds(right), &mut found);
    for (id, variable) in left.variables.iter().enumerate() {
        let same = |of: &Variable| of.name == variable.name;
        let Some(other_id) = right.variables.iter().position(same) else { continue };
        let twin = &right.variables[other_id];
        let prefix = format!("{}:", variable.name);
        attributes(&prefix, &variable.attributes, &twin.attributes, &mut found);
        if kind(left, variable) == kind(right, twin) && left.shape(variable) == right.shape(twin) {
            found.extend(first_difference((one, id), (other, other_id), &mut |bytes| {
                done += bytes;
                tell(done, one.size().max(done));
            })?);
        }
    }
    Ok(found)
}

/// The description of a variable besides its name: type and dimensions.
fn kind(header: &Header, variable: &Variable) -> String {
    let names = variable.dimensions.iter().filter_map(|id| header.dimensions.get(*id));
    let names: Vec<String> = names.map(|one| one.name.to_string()).collect();
    format!("{} ({})", variable.kind.name(), names.join(", "))
}

fn kinds(header: &Header) -> Told {
    let each = header.variables.iter();
    each.map(|variable| (variable.name.to_string(), kind(header, variable))).collect()
}

fn attributes(prefix: &str, left: &[Attribute], right: &[Attribute], found: &mut Vec<String>) {
    let told = |list: &[Attribute]| {
        let each = list.iter();
        let value = |one: &Attribute| format!("{} {:?}", one.kind.name(), one.values);
        each.map(|one| (format!("{prefix}{}", one.name), value(one))).collect()
    };
    let (left, right): (Told, Told) = (told(left), told(right));
    let mut differing = Vec::new();
    named("attribute", &left, &right, &mut differing);
    // Values of attributes can be long.
    let short =
        |line: String| if line.len() > 200 { line.chars().take(200).collect() } else { line };
    found.extend(differing.into_iter().map(short));
}

/// Things with a name that only one side has, or that differ.
fn named(
    what: &str,
    left: &[(String, String)],
    right: &[(String, String)],
    found: &mut Vec<String>,
) {
    for (name, value) in left {
        match right.iter().find(|(other, _)| other == name) {
            None => found.push(format!("{what} {name}: only in the first")),
            Some((_, other)) if other != value => {
                found.push(format!("{what} {name}: {value}, {other}"));
            }
            Some(_) => {}
        }
    }
    let only = right.iter().filter(|(name, _)| !left.iter().any(|(other, _)| other == name));
    found.extend(only.map(|(name, _)| format!("{what} {name}: only in the second")));
}

/// The first value of a variable in which two files differ.
fn first_difference(
    (one, id): (&Logical, usize),
    (other, other_id): (&Logical, usize),
    tell: &mut dyn FnMut(u64),
) -> Result<Option<String>, String> {
    let variable = &one.header().variables[id];
    let (slot, size) = (one.layout().slots[id], variable.kind.size());
    let records = if slot.records { one.records().min(other.records()) } else { 1 };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for record in 0..records {
        let mut start = 0;
        while start < slot.size {
            let len = usize::try_from(PIECE.min(slot.size - start)).unwrap_or(0);
            left.resize(len, 0);
            right.resize(len, 0);
            let slab = Slab { variable: id, record };
            one.read_slab(slab, start, &mut left).map_err(|why| why.to_string())?;
            let slab = Slab { variable: other_id, record };
            other.read_slab(slab, start, &mut right).map_err(|why| why.to_string())?;
            if let Some(at) = left.iter().zip(&right).position(|(one, other)| one != other) {
                let element = (start + at as u64) / size;
                let place = if slot.records { format!("record {record}, ") } else { String::new() };
                return Ok(Some(format!(
                    "variable {}: differs at {place}element {element}",
                    variable.name
                )));
            }
            start += len as u64;
            tell(len as u64);
        }
    }
    Ok(None)
}

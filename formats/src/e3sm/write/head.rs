//! The header of a subfile: the canonical one and the additions of E3SM-IO.

use super::derive::Use;
use super::maps::Map;
use super::plan::Plan;
use crate::cdf::{Attribute, Dimension, Header, Name, Records, Type, Variable, Version};
use crate::e3sm::headers::{ADDED, OF_DECOMPOSED, TABLES};
use crate::e3sm::places;

/// The dimension of the blobs.
const BLOBS: &str = "nblobs";

fn elements_name(k: usize) -> String {
    format!("D{}.nelems", k + 1)
}

fn most_name(k: usize) -> String {
    format!("D{}.max_nreqs", k + 1)
}

fn table_name(k: usize, table: &str) -> String {
    format!("D{}.{table}", k + 1)
}

/// Describes a part of a header with a name that a set with so many decompositions needs for
/// something else.
pub(super) fn clash(header: &Header, decompositions: usize) -> Option<String> {
    let all = || 0..decompositions;
    let mut dimensions: Vec<String> =
        all().flat_map(|k| [elements_name(k), most_name(k)]).collect();
    dimensions.push(BLOBS.into());
    let variables: Vec<String> =
        all().flat_map(|k| TABLES.iter().map(move |table| table_name(k, table))).collect();
    let is_one = |names: &[String], name: &Name| names.iter().any(|one| *name == **one);
    let dimension = header.dimensions.iter().find(|one| is_one(&dimensions, &one.name));
    if let Some(found) = dimension {
        return Some(format!("dimension {} has a name of the convention's", found.name));
    }
    let variable = header.variables.iter().find(|one| is_one(&variables, &one.name));
    if let Some(found) = variable {
        return Some(format!("variable {} has a name of the convention's", found.name));
    }
    let global = ADDED.iter().chain([&places::NAME]).find(|name| header.attribute(name).is_some());
    if let Some(found) = global {
        return Some(format!("attribute {found} has a name of the convention's"));
    }
    let of = |one: &Variable| {
        let found = OF_DECOMPOSED.iter().find(|name| one.attribute(name).is_some());
        found.map(|found| format!("{}: attribute {found} has a name of the convention's", one.name))
    };
    header.variables.iter().find_map(of)
}

/// A number that was checked to have 31 bits.
fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn ints(numbers: &[usize]) -> Vec<i32> {
    numbers.iter().map(|number| int(*number)).collect()
}

impl Plan {
    /// The header of a subfile; its variables have no places yet.
    pub(super) fn head(&self, subfile: usize) -> Header {
        let mut header = Header::clone(&self.header);
        header.version = Version::Data64;
        header.records = Records::Known(self.records);
        let first = header.dimensions.len();
        header.dimensions.extend(self.added_dimensions(subfile));
        let (writers, maps) = (int(self.writers as usize), int(self.maps.len()));
        let numbers = [writers, maps, int(self.groups.len())];
        let counts = ADDED.iter().zip(numbers);
        let counts = counts.map(|(name, number)| Attribute::of_ints(name, &[number]));
        header.attributes.splice(0..0, counts.chain(self.places.clone()));
        for (variable, used) in header.variables.iter_mut().zip(&self.uses) {
            (variable.begin, variable.told_size) = (0, 0);
            if let Use::Decomposed(k) = used {
                decompose(variable, *k, first, self.maps[*k].dimensions.len());
            }
        }
        let tables = self.maps.iter().enumerate().flat_map(|(k, map)| {
            (0..TABLES.len()).map(move |table| self.table(k, map, table, first))
        });
        header.variables.splice(0..0, tables);
        header
    }

    fn added_dimensions(&self, subfile: usize) -> Vec<Dimension> {
        let group = &self.groups[subfile];
        let dimension = |name: String, length: u64| Dimension {
            name: name.as_str().into(),
            length: length.max(1),
        };
        let mut added = vec![dimension(BLOBS.into(), group.len() as u64)];
        // A dimension of no length would have no limit.
        added.extend(self.maps.iter().enumerate().map(|(k, map)| {
            dimension(elements_name(k), group.iter().map(|writer| map.count(*writer)).sum())
        }));
        added.extend(
            self.maps.iter().enumerate().map(|(k, map)| dimension(most_name(k), most(map, group))),
        );
        added
    }

    /// A table of decomposition `k`; `first` is the dimension of the blobs.
    fn table(&self, k: usize, map: &Map, table: usize, first: usize) -> Variable {
        let mut dimensions = vec![first];
        if table >= 3 {
            dimensions.push(first + 1 + self.maps.len() + k);
        }
        let described = Attribute::of_ints(OF_DECOMPOSED[1], &ints(&map.dimensions));
        Variable {
            name: table_name(k, TABLES[table]).as_str().into(),
            dimensions,
            attributes: if table == 0 { vec![described] } else { vec![] },
            kind: if (1..3).contains(&table) { Type::Int64 } else { Type::Int },
            told_size: 0,
            begin: 0,
        }
    }
}

/// Requests of the writer of a group that has most of them.
pub(super) fn most(map: &Map, group: &[u32]) -> u64 {
    group.iter().map(|writer| map.request_count(*writer)).max().unwrap_or(0).max(1)
}

/// Makes a variable one of decomposition `k`, which has so many of its dimensions.
fn decompose(variable: &mut Variable, k: usize, first: usize, decomposed: usize) {
    let added = [
        Attribute::of_ints(OF_DECOMPOSED[0], &[int(k + 1)]),
        Attribute::of_ints(OF_DECOMPOSED[1], &ints(&variable.dimensions)),
    ];
    variable.attributes.splice(0..0, added);
    variable.dimensions.truncate(variable.dimensions.len() - decomposed);
    variable.dimensions.push(first + 1 + k);
}

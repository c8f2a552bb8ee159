//! The header of a subfile, taken apart: the canonical header in it, and the additions of E3SM-IO.

use super::places::{self, Places};
use crate::MOST_FILES;
use crate::cdf::{Attribute, Header, Name, Records};
use crate::error::{Error, Result};

/// Attributes of the file that E3SM-IO adds.
pub(super) const ADDED: [&str; 3] = ["global_nprocs", "num_decompositions", "num_subfiles"];
/// Attributes of a decomposed variable that E3SM-IO adds.
pub(super) const OF_DECOMPOSED: [&str; 2] = ["decomposition_ID", "global_dimids"];
/// The variables of a decomposition, in the order of the file.
pub(super) const TABLES: [&str; 5] = ["nreqs", "blob_start", "blob_count", "offsets", "lengths"];

/// How many subfiles a set has, if this is the header of one of them.
pub(super) fn subfiles(header: &Header) -> Option<usize> {
    if ADDED.iter().any(|name| header.attribute(name).is_none()) {
        return None;
    }
    let found = header.attribute(ADDED[2])?.ints()?;
    usize::try_from(*found.first()?).ok().filter(|count| (1..=MOST_FILES).contains(count))
}

/// A decomposition, as the header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decomposition {
    /// The dimensions that are decomposed, as positions in the canonical header.
    pub(super) dimensions: Vec<usize>,
    /// Elements of all these dimensions together.
    pub(super) elements: u64,
    /// Elements of the fastest of them.
    pub(super) row: u64,
}

/// How a decomposition is stored in one subfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tables {
    /// Elements that the subfile holds.
    pub(super) elements: u64,
    /// Requests of the blob that has most of them.
    pub(super) most_requests: u64,
    /// Its five variables.
    pub(super) variables: [usize; 5],
}

/// A canonical variable, as a subfile has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The variable of the subfile.
    pub(super) variable: usize,
    /// The decomposition, counted from zero; none if every subfile has it whole.
    pub(super) decomposition: Option<usize>,
}

/// The header of a subfile, taken apart.
pub(super) struct Described {
    /// The header of the file that the set stands for; its variables have no places yet.
    pub(super) canonical: Header,
    /// Their places, if the set has them.
    pub(super) places: Option<Places>,
    pub(super) processes: u64,
    pub(super) subfiles: usize,
    pub(super) blobs: u64,
    pub(super) decompositions: Vec<Decomposition>,
    pub(super) tables: Vec<Tables>,
    /// How each canonical variable is stored.
    pub(super) stored: Vec<Stored>,
}

impl Described {
    /// Takes the header of the file `name` apart.
    pub(super) fn of(header: &Header, name: &str) -> Result<Self> {
        Parts { header, name }.described()
    }
}

struct Parts<'a> {
    header: &'a Header,
    name: &'a str,
}

impl Parts<'_> {
    fn wrong<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::corrupt(self.name, what))
    }

    fn number(&self, name: &str) -> Result<usize> {
        let found = self.header.attribute(name).and_then(Attribute::ints);
        match found.as_deref() {
            Some([number]) if *number >= 0 => Ok(number.cast_unsigned() as usize),
            _ => self.wrong(format!("attribute {name} is not one number")),
        }
    }

    fn dimension(&self, name: &str) -> Result<usize> {
        let mut found = (0..self.header.dimensions.len())
            .filter(|id| self.header.dimensions[*id].name == *name);
        match (found.next(), found.next()) {
            (Some(id), None) => Ok(id),
            _ => self.wrong(format!("not one dimension {name}")),
        }
    }

    fn described(&self) -> Result<Described> {
        let count = self.number(ADDED[1])?;
        if count > self.header.variables.len() / TABLES.len() {
            return self.wrong(format!("{count} decompositions without their variables"));
        }
        let nblobs = self.dimension("nblobs")?;
        let mut added = vec![nblobs];
        let mut tables = Vec::new();
        for k in 0..count {
            let elements = self.dimension(&format!("D{}.nelems", k + 1))?;
            let most = self.dimension(&format!("D{}.max_nreqs", k + 1))?;
            added.extend([elements, most]);
            tables.push(self.tables(k, nblobs, most, elements)?);
        }
        let canonical = self.canonical_dimensions(&added);
        let mut decompositions = Vec::new();
        for table in &tables {
            decompositions.push(self.decomposition(table.variables[0], &canonical)?);
        }
        let (header, stored) = self.canonical(&canonical, &decompositions, &added)?;
        let processes = self.number(ADDED[0])?;
        let subfiles = subfiles(self.header).filter(|count| *count <= processes);
        let Some(subfiles) = subfiles else {
            return self.wrong(format!(
                "the number of subfiles is not one to at most {processes} (num_subfiles)"
            ));
        };
        let places = Places::told(self.header).or_else(|why| self.wrong(why))?;
        Ok(Described {
            canonical: header,
            places,
            processes: processes as u64,
            subfiles,
            blobs: self.header.dimensions[nblobs].length,
            decompositions,
            tables,
            stored,
        })
    }

    /// The five variables of decomposition `k`, which must have the shape that they must have.
    fn tables(&self, k: usize, nblobs: usize, most: usize, elements: usize) -> Result<Tables> {
        let mut variables = [0; TABLES.len()];
        for (index, table) in TABLES.iter().enumerate() {
            let name = format!("D{}.{table}", k + 1);
            let id = k * TABLES.len() + index;
            let variable = &self.header.variables[id];
            let wanted: &[usize] = if index < 3 { &[nblobs] } else { &[nblobs, most] };
            let bytes = if (1..3).contains(&index) { 8 } else { 4 };
            if variable.name != *name.as_str()
                || variable.dimensions != wanted
                || variable.kind.size() != bytes
            {
                return self
                    .wrong(format!("variable {} stands where {name} should", variable.name));
            }
            variables[index] = id;
        }
        let length = |id: usize| self.header.dimensions[id].length;
        Ok(Tables { elements: length(elements), most_requests: length(most), variables })
    }

    /// Positions of the dimensions that are not added.
    fn canonical_dimensions(&self, added: &[usize]) -> Vec<usize> {
        (0..self.header.dimensions.len()).filter(|id| !added.contains(id)).collect()
    }

    /// The canonical dimensions that an attribute lists.
    fn global_dimensions(&self, of: usize, canonical: &[usize]) -> Result<Vec<usize>> {
        let variable = &self.header.variables[of];
        let found = variable.attribute(OF_DECOMPOSED[1]).and_then(Attribute::ints);
        let valid = |id: &i32| usize::try_from(*id).ok().filter(|id| *id < canonical.len());
        match found.and_then(|ids| ids.iter().map(valid).collect::<Option<Vec<usize>>>()) {
            Some(ids) => Ok(ids),
            None => self.wrong(format!("{}: global_dimids are no dimensions", variable.name)),
        }
    }

    fn decomposition(&self, nreqs: usize, canonical: &[usize]) -> Result<Decomposition> {
        let dimensions = self.global_dimensions(nreqs, canonical)?;
        let mut lengths = dimensions.iter().map(|id| self.header.dimensions[canonical[*id]].length);
        let elements = lengths.clone().try_fold(1_u64, u64::checked_mul);
        match (elements, lengths.next_back()) {
            (Some(elements @ 1..), Some(row)) => Ok(Decomposition { dimensions, elements, row }),
            _ => self.wrong("a decomposition of no dimensions"),
        }
    }

    /// The canonical header, and where its variables are here.
    fn canonical(
        &self,
        dimensions: &[usize],
        decompositions: &[Decomposition],
        added: &[usize],
    ) -> Result<(Header, Vec<Stored>)> {
        let mut header = Header {
            version: self.header.version,
            records: self.header.records,
            dimensions: dimensions.iter().map(|id| self.header.dimensions[*id].clone()).collect(),
            attributes: without(&places::without(&self.header.attributes), &ADDED),
            variables: Vec::new(),
        };
        let mut stored = Vec::new();
        for id in decompositions.len() * TABLES.len()..self.header.variables.len() {
            let mut variable = self.header.variables[id].clone();
            let decomposition = self.decomposition_of(id, decompositions.len())?;
            if decomposition.is_some() {
                variable.dimensions = self.global_dimensions(id, dimensions)?;
                variable.attributes = without(&variable.attributes, &OF_DECOMPOSED);
            } else {
                variable.dimensions = self.remapped(id, added)?;
            }
            (variable.begin, variable.told_size) = (0, 0);
            header.variables.push(variable);
            stored.push(Stored { variable: id, decomposition });
        }
        self.check(&header, &stored, decompositions, added)?;
        Ok((header, stored))
    }

    fn decomposition_of(&self, id: usize, count: usize) -> Result<Option<usize>> {
        let variable = &self.header.variables[id];
        let Some(attribute) = variable.attribute(OF_DECOMPOSED[0]) else { return Ok(None) };
        let found = attribute.ints().and_then(|ids| match ids[..] {
            [id] => usize::try_from(id).ok()?.checked_sub(1).filter(|id| *id < count),
            _ => None,
        });
        match found {
            Some(id) => Ok(Some(id)),
            None => self.wrong(format!("{}: decomposition_ID is no decomposition", variable.name)),
        }
    }

    /// The dimensions of a variable as positions in the canonical header.
    fn remapped(&self, id: usize, added: &[usize]) -> Result<Vec<usize>> {
        let variable = &self.header.variables[id];
        if variable.dimensions.iter().any(|id| added.contains(id)) {
            return self.wrong(format!("{} is decomposed but does not say how", variable.name));
        }
        let before = |id: usize| added.iter().filter(|added| **added < id).count();
        Ok(variable.dimensions.iter().map(|id| *id - before(*id)).collect())
    }

    /// Decomposed variables must have the shape of their decomposition, here and canonically.
    fn check(
        &self,
        canonical: &Header,
        stored: &[Stored],
        decompositions: &[Decomposition],
        added: &[usize],
    ) -> Result<()> {
        for (variable, stored) in canonical.variables.iter().zip(stored) {
            let Some(k) = stored.decomposition else { continue };
            let here = &self.header.variables[stored.variable];
            let records = usize::from(self.header.has_records(here));
            let elements = added[1 + 2 * k];
            let shape = here.dimensions.get(records..) == Some(&[elements][..]);
            // Other dimensions of these lengths are as good: E3SM-IO shares a decomposition among
            // them.
            let length = |id: &usize| canonical.dimensions[*id].length;
            let wanted = decompositions[k].dimensions.iter().map(length);
            let found = variable.dimensions.get(records..).unwrap_or_default().iter().map(length);
            let matches = found.eq(wanted);
            if !shape || !matches || canonical.has_records(variable) != (records == 1) {
                return self.wrong(format!("{} has not the shape of D{}", variable.name, k + 1));
            }
        }
        Ok(())
    }
}

fn without(attributes: &[Attribute], names: &[&str]) -> Vec<Attribute> {
    let is_added = |name: &Name| names.iter().any(|added| *name == **added);
    attributes.iter().filter(|attribute| !is_added(&attribute.name)).cloned().collect()
}

/// The number of records in a header; E3SM-IO always writes one.
pub(super) fn records(header: &Header) -> u64 {
    match header.records {
        Records::Known(number) => number,
        Records::Streaming => 0,
    }
}

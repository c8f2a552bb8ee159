//! All subfiles of a set: whether they belong together, and the file that they stand for.

use super::coverage::{Covered, cover};
use super::headers::{Decomposition, Described, Stored};
use super::places;
use super::storage::{Storage, Subfile};
use super::tables::Table;
use crate::cdf::{Alignment, Endian, Header, Records};
use crate::error::{Error, Kind, Result};
use crate::files::Files;
use crate::logical::{Holes, Logical, Options};
use std::sync::Arc;

/// A subfile that was read.
pub(super) struct Member {
    pub(super) file: usize,
    pub(super) records: u64,
    pub(super) endian: Endian,
    pub(super) storage: Storage,
    pub(super) tables: Vec<Table>,
}

/// The data of a set.
pub(super) struct Data {
    pub(super) files: Arc<dyn Files>,
    pub(super) kind: &'static str,
    pub(super) members: Vec<Member>,
    pub(super) header: Header,
    pub(super) decompositions: Vec<Decomposition>,
    pub(super) covered: Vec<Covered>,
    pub(super) stored: Vec<Stored>,
    pub(super) processes: u64,
    pub(super) holes: Holes,
    pub(super) notes: Vec<String>,
}

/// The file that the subfiles stand for, which is called `name`; `count` of them were found.
///
/// # Errors
///
/// If a subfile is missing or does not belong to the others, unless `options` allow that.
pub(crate) fn open(
    files: Arc<dyn Files>,
    name: &str,
    count: usize,
    options: &Options,
) -> Result<Logical> {
    let mut opening = Opening { files: &*files, name, options, notes: Vec::new() };
    let (first, described) = opening.first(count)?;
    let alignment = alignment(&first.header);
    let kind = if first.is_hdf5() { "E3SM-IO blobs (HDF5)" } else { "E3SM-IO blobs (PnetCDF)" };
    let members = opening.members(first, &described)?;
    let covered = opening.covered(&members, &described)?;
    let notes = opening.notes;
    let records = members.iter().map(|member| member.records).min().unwrap_or(0);
    let mut header = described.canonical;
    let size = places::assign(&mut header, records, described.places.as_ref(), alignment)
        .map_err(|why| Error::corrupt(name, why))?;
    let source = Data {
        files: Arc::clone(&files),
        kind,
        members,
        header: header.clone(),
        decompositions: described.decompositions,
        covered,
        stored: described.stored,
        processes: described.processes,
        holes: options.holes,
        notes,
    };
    let file = Logical::new(name.into(), header, records, Box::new(source), &options.cache)?;
    Ok(file.with_size(size))
}

/// The borders at which the data of a canonical file begin, by those of a subfile: none where its
/// data follow the header at once, PnetCDF's own if they lie there, else the smallest that explain
/// the place.
pub(super) fn alignment(first: &Header) -> Alignment {
    let usual = Alignment::default();
    let begins = first.variables.iter().map(|variable| variable.begin);
    // Headers in HDF5 give no places.
    let (Some(begin @ 1..), size) = (begins.min(), first.size()) else { return usual };
    let explains = |border: &u64| size.checked_next_multiple_of(*border) == Some(begin);
    let borders = (2..=12).map(|bits| 1 << bits);
    if begin != size && explains(&usual.variables) {
        return usual;
    }
    Alignment { variables: borders.into_iter().find(explains).unwrap_or(usual.variables), ..usual }
}

/// The most notes about errors that were allowed.
const MOST_NOTES: usize = 100;

struct Opening<'a> {
    files: &'a dyn Files,
    name: &'a str,
    options: &'a Options,
    notes: Vec<String>,
}

impl Opening<'_> {
    /// An error, or a note if parts may be missing.
    fn allow(&mut self, why: Error) -> Result<()> {
        let may_lack = self.options.partial && !matches!(why.kind, Kind::System(_));
        if !may_lack {
            return Err(why);
        }
        match self.notes.len() {
            MOST_NOTES => self.notes.push("and more".into()),
            count if count < MOST_NOTES => self.notes.push(why.to_string()),
            _ => {}
        }
        Ok(())
    }

    fn subfile(&self, file: usize) -> Result<(Subfile, Described)> {
        let subfile = Subfile::open(self.files, file)?;
        let described = Described::of(&subfile.header, &self.files.name(file))?;
        Ok((subfile, described))
    }

    /// The subfile from which everything is taken that all have.
    fn first(&mut self, count: usize) -> Result<(Subfile, Described)> {
        for file in 0..count {
            match self.subfile(file) {
                Ok(found) => return Ok(found),
                Err(why) => self.allow(why)?,
            }
        }
        Err(Error::new(self.name, Kind::Missing, "no subfile can be read"))
    }

    fn members(&mut self, first: Subfile, described: &Described) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        let mut blobs = 0_u64;
        let start = first.file;
        match self.member(first, described, true) {
            Ok(member) => {
                members.push(member);
                blobs = described.blobs;
            }
            Err(why) => self.allow(why)?,
        }
        for file in start + 1..described.subfiles {
            let member = self.subfile(file).and_then(|(subfile, of_it)| {
                let of_it = self.same(described, of_it, start, file)?;
                Ok((self.member(subfile, &of_it, false)?, of_it.blobs))
            });
            match member {
                Ok((member, count)) => {
                    members.push(member);
                    blobs = blobs.saturating_add(count);
                }
                Err(why) => self.allow(why)?,
            }
        }
        if blobs != described.processes {
            let what = format!(
                "the {} subfiles have data of {blobs} processes, but {} wrote the file: subfiles \
                    of different runs, or one is missing",
                described.subfiles, described.processes
            );
            self.allow(Error::new(self.name, Kind::Mismatch, what))?;
        }
        if members.is_empty() {
            return Err(Error::new(self.name, Kind::Missing, "no subfile can be read"));
        }
        Ok(members)
    }

    /// The description of a subfile, if it is of the same file as the first's.
    fn same(
        &self,
        first: &Described,
        other: Described,
        first_file: usize,
        file: usize,
    ) -> Result<Described> {
        let differs = |what: String| {
            let what = format!("{what} than {} (of another run?)", self.files.name(first_file));
            Err(Error::new(self.files.name(file), Kind::Mismatch, what))
        };
        if other.processes != first.processes || other.subfiles != first.subfiles {
            return differs(format!(
                "is of {} processes and {} subfiles, others",
                other.processes, other.subfiles
            ));
        }
        if other.places != first.places {
            return differs("says that the variables lie at other places".into());
        }
        if other.decompositions != first.decompositions || other.stored != first.stored {
            return differs("has other decompositions".into());
        }
        let with_records =
            |header: &Header| Header { records: Records::Known(0), ..header.clone() };
        if with_records(&other.canonical) != with_records(&first.canonical) {
            return differs("has other dimensions, attributes or variables".into());
        }
        Ok(other)
    }

    fn member(&self, subfile: Subfile, described: &Described, authority: bool) -> Result<Member> {
        let (storage, tables) = subfile.tables(self.files, described, authority)?;
        let Subfile { file, records, endian, .. } = subfile;
        Ok(Member { file, records, endian, storage, tables })
    }

    fn covered(&mut self, members: &[Member], described: &Described) -> Result<Vec<Covered>> {
        let mut all = Vec::new();
        for (k, decomposition) in described.decompositions.iter().enumerate() {
            match cover(members, k, decomposition.elements) {
                Ok(covered) => all.push(covered),
                Err(twice) => {
                    let [one, other] =
                        twice.members.map(|index| self.files.name(members[index].file));
                    let what = format!(
                        "element {} of D{} is also in {other}: subfiles of different runs?",
                        twice.element,
                        k + 1
                    );
                    return Err(Error::new(one, Kind::Mismatch, what));
                }
            }
        }
        Ok(all)
    }
}

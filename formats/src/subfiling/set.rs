//! Master and subfiles together: the file that they stand for.

use super::master::{self, Shared};
use crate::cdf::{Alignment, Dialect, Header, Layout, Records};
use crate::e3sm::read_header;
use crate::error::{Error, Kind, Result};
use crate::files::Files;
use crate::gather::Gather;
use crate::logical::{Description, FileFacts, Logical, Options, Slab, Source};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a variable that are assembled at a time.
const TILE: u64 = 8 << 20;

/// A file of the set.
struct Member {
    layout: Layout,
    header: Header,
    size: u64,
}

/// Where a variable is.
enum Place {
    /// In the master.
    Master,
    /// In the subfiles, each with a part of one dimension.
    Parts(Parts),
}

/// A variable in several subfiles.
struct Parts {
    /// Elements of slower dimensions, of the one that is shared, and of faster ones.
    outer: u64,
    shared: u64,
    inner: u64,
    /// For each subfile: the variable there, and its part; none if the subfile is missing.
    parts: Vec<Option<(usize, Range<u64>)>>,
}

struct Subfiles {
    files: Arc<dyn Files>,
    /// The master, then the subfiles.
    members: Vec<Option<Member>>,
    places: Vec<Place>,
    elements: Vec<u64>,
    records: u64,
    notes: Vec<String>,
}

/// The file that the master `name`, the first of `files`, and its subfiles stand for.
///
/// # Errors
///
/// If a subfile is missing or does not belong to the master, unless `options` allow that.
pub(crate) fn open(files: Arc<dyn Files>, name: &str, options: &Options) -> Result<Logical> {
    let master = member(&*files, 0, Dialect::default())?;
    let told = |what: String| Error::corrupt(files.name(0), what);
    let count = master::subfiles(&master.header)
        .ok_or_else(|| told("does not say how many subfiles it has".into()))?;
    let (mut header, shared) = master::canonical(&master.header, count).map_err(told)?;
    let mut notes = Vec::new();
    let mut members = vec![Some(master)];
    // Each variable has a dimension that is not limited for this library, though its length is told
    // as zero.
    let dialect = Dialect { many_unlimited: true, ..Dialect::default() };
    for file in 1..=count {
        let found = member(&*files, file, dialect).and_then(|found| {
            check(&*files, file, &found, &header, &shared)?;
            match check_size(&*files, file, &found) {
                Err(why) if options.partial => notes.push(why.to_string()),
                result => result?,
            }
            Ok(found)
        });
        members.push(match found {
            Ok(found) => Some(found),
            Err(why) if options.partial && !matches!(why.kind, Kind::System(_)) => {
                notes.push(why.to_string());
                None
            }
            Err(why) => return Err(why),
        });
    }
    let records = members.iter().flatten().map(records).max().unwrap_or(0);
    header.records = Records::Known(records);
    header.assign(Alignment::default()).map_err(|why| told(why.to_string()))?;
    let places = (0..header.variables.len()).map(|id| place(id, &header, &shared[id], &members));
    let source = Subfiles {
        places: places.collect(),
        elements: header.variables.iter().map(|variable| variable.kind.size()).collect(),
        files: Arc::clone(&files),
        members,
        records,
        notes,
    };
    Logical::new(name.into(), header, records, Box::new(source), &options.cache)
}

/// Records of a file: its header has the number zero even if there are some.
fn records(member: &Member) -> u64 {
    let told = member.layout.records(member.header.records, member.size);
    told.max(member.layout.begun_records(member.size))
}

fn member(files: &dyn Files, file: usize, dialect: Dialect) -> Result<Member> {
    let header = read_header(files, file, dialect)?;
    let corrupt = |why: crate::cdf::Error| Error::corrupt(files.name(file), why.to_string());
    let layout = Layout::of(&header).map_err(corrupt)?;
    let size = files.size(file)?;
    Ok(Member { layout, header, size })
}

/// A subfile that ends before its variables without records do is truncated, or they were never
/// written. The master ends behind its header if all variables are shared.
fn check_size(files: &dyn Files, file: usize, member: &Member) -> Result<()> {
    let end = member.layout.end(0);
    let end = end.map_err(|why| Error::corrupt(files.name(file), why.to_string()))?;
    if member.size >= end {
        return Ok(());
    }
    let what =
        format!("truncated: {} bytes, the variables without records end at {end}", member.size);
    Err(Error::new(files.name(file), Kind::Truncated, what))
}

/// Whether a subfile has its part of each variable that is shared.
fn check(
    files: &dyn Files,
    file: usize,
    member: &Member,
    canonical: &Header,
    shared: &[Option<Shared>],
) -> Result<()> {
    for (variable, shared) in canonical.variables.iter().zip(shared) {
        let Some(shared) = shared else { continue };
        let mismatch = |what: &str| {
            let what = format!("{} {what} (of another run?)", variable.name);
            Err(Error::new(files.name(file), Kind::Mismatch, what))
        };
        let mut found = member.header.variables.iter().filter(|one| one.name == variable.name);
        let (Some(one), None) = (found.next(), found.next()) else {
            return mismatch("is not there once");
        };
        let has_records = canonical.has_records(variable);
        let mut wanted = canonical.shape(variable);
        let part = &shared.parts[file - 1];
        wanted[shared.dimension - usize::from(has_records)] = part.end - part.start;
        if one.kind != variable.kind
            || member.header.has_records(one) != has_records
            || member.header.shape(one) != wanted
        {
            return mismatch("has another type or shape than the master says");
        }
    }
    Ok(())
}

fn place(id: usize, header: &Header, shared: &Option<Shared>, members: &[Option<Member>]) -> Place {
    let Some(shared) = shared else { return Place::Master };
    let variable = &header.variables[id];
    let shape = header.shape(variable);
    let at = shared.dimension - usize::from(header.has_records(variable));
    let part = |(member, part): (&Option<Member>, &Range<u64>)| {
        let mut variables = member.as_ref()?.header.variables.iter();
        Some((variables.position(|one| one.name == variable.name)?, part.clone()))
    };
    Place::Parts(Parts {
        outer: shape.iter().take(at).product(),
        shared: shape[at],
        inner: shape.iter().skip(at + 1).product(),
        parts: members.iter().skip(1).zip(&shared.parts).map(part).collect(),
    })
}

impl Subfiles {
    /// Copies the bytes that a file has of a range; those behind its end were never written.
    fn copy(
        &self,
        gather: &mut Gather<'_>,
        file: usize,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<()> {
        let size = self.members[file].as_ref().map_or(0, |member| member.size);
        let len = len.min(size.saturating_sub(from));
        if len == 0 { Ok(()) } else { gather.push(from, to as usize, len as usize) }
    }

    /// The parts of `wanted`, elements of a slab, that one subfile has.
    fn part(
        &self,
        gather: &mut Gather<'_>,
        file: usize,
        slab: Slab,
        parts: &Parts,
        wanted: &Range<u64>,
    ) -> Result<()> {
        let Some((variable, part)) = &parts.parts[file - 1] else { return Ok(()) };
        let Some(member) = &self.members[file] else { return Ok(()) };
        let element = self.elements[slab.variable];
        let begin = member.layout.offset_of(*variable, slab.record);
        let begin =
            begin.ok_or_else(|| Error::corrupt(self.files.name(file), "too many records"))?;
        let (whole, own) = (parts.shared * parts.inner, (part.end - part.start) * parts.inner);
        for outer in wanted.start / whole..wanted.end.div_ceil(whole).min(parts.outer) {
            let first = outer * whole + part.start * parts.inner;
            let from = first.max(wanted.start);
            let end = (first + own).min(wanted.end);
            if from < end {
                let source = begin + (outer * own + (from - first)) * element;
                let to = (from - wanted.start) * element;
                self.copy(gather, file, source, to, (end - from) * element)?;
            }
        }
        Ok(())
    }
}

impl Source for Subfiles {
    fn fill(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        let (len, element) = (out.len() as u64, self.elements[slab.variable]);
        let mut gather = Gather::new(&*self.files, out);
        match &self.places[slab.variable] {
            Place::Master => {
                let layout = self.members[0].as_ref().map(|member| &member.layout);
                let begin = layout.and_then(|layout| layout.offset_of(slab.variable, slab.record));
                let from = begin.and_then(|begin| begin.checked_add(start));
                let wrong = || Error::corrupt(self.files.name(0), "too many records");
                self.copy(&mut gather, 0, from.ok_or_else(wrong)?, 0, len)?;
            }
            Place::Parts(parts) => {
                let wanted = start / element..(start + len) / element;
                for file in 1..self.members.len() {
                    gather.begin(file, crate::cdf::Endian::Big, element)?;
                    self.part(&mut gather, file, slab, parts, &wanted)?;
                }
            }
        }
        gather.flush()
    }

    fn is_direct(&self, variable: usize) -> bool {
        matches!(self.places.get(variable), Some(Place::Master))
    }

    fn tile(&self) -> u64 {
        TILE
    }

    fn is_unchanged(&self) -> bool {
        self.files.is_unchanged()
    }

    fn describe(&self) -> Description {
        let facts = |(file, member): (usize, &Option<Member>)| {
            let member = member.as_ref()?;
            Some(FileFacts {
                name: self.files.name(file),
                size: member.size,
                blobs: 0,
                records: records(member),
            })
        };
        let mut notes = self.notes.clone();
        let told = |member: &Member| member.layout.records(member.header.records, member.size);
        if self.members.iter().flatten().all(|member| told(member) < self.records) {
            notes.push(format!(
                "no header tells the {} records, which the sizes of the subfiles show",
                self.records
            ));
        }
        Description {
            kind: "PnetCDF subfiles",
            files: self.members.iter().enumerate().filter_map(facts).collect(),
            notes,
            ..Description::default()
        }
    }
}

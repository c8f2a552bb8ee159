//! The parts of a set, and whether it stands for exactly the file that it is made of.

use super::content::{self, Content, Owned, Sink};
use super::derive::{Derive, Use};
use super::head::clash;
use super::maps::{Found, Map};
use super::out::Out;
use super::slabs::Slab;
use super::{Step, Stop, unsuited};
use crate::MOST_FILES;
use crate::cdf::{Alignment, Attribute, Endian, Header, Layout, Records, parse};
use crate::e3sm::headers::Described;
use crate::e3sm::places::{self, Places};
use crate::e3sm::set::alignment;
use crate::error::{Error, Result};

/// The layout of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// netCDF files (CDF-5), variable by variable.
    Pnetcdf,
    /// HDF5 files, process by process.
    Hdf5,
}

/// Whether a set can be made of a file.
pub enum Outcome {
    /// How.
    Plan(Plan),
    /// The convention cannot express the file, for this reason.
    Unsuited(String),
}

/// The parts of a set. It depends on the arguments of [`Plan::of`] only: several processes make the
/// same one.
pub struct Plan {
    pub(super) kind: Kind,
    /// The header of the file.
    pub(super) header: Box<Header>,
    pub(super) layout: Box<Layout>,
    pub(super) records: u64,
    pub(super) writers: u32,
    /// The writers of each subfile.
    pub(super) groups: Vec<Vec<u32>>,
    /// How each variable is stored.
    pub(super) uses: Vec<Use>,
    pub(super) maps: Vec<Map>,
    /// Where the variables lie, if that must be told.
    pub(super) places: Option<Attribute>,
}

impl Plan {
    /// A set of the file `content`, which has the bytes `owned` of its writers. `groups` are the
    /// writers of each subfile: each of `0..n` is in one of them, also one that wrote nothing.
    ///
    /// The memory depends on the number of the writers' ranges, not on their length.
    ///
    /// # Errors
    ///
    /// If something cannot be read, the ranges are not sorted and disjoint, or a writer is in none
    /// or several groups.
    pub fn of(
        content: &dyn Content,
        owned: &mut dyn Iterator<Item = Result<Owned>>,
        groups: &[Vec<u32>],
        kind: Kind,
    ) -> Result<Outcome> {
        match planned(content, owned, groups, kind) {
            Ok(plan) => Ok(Outcome::Plan(plan)),
            Err(Stop::Unsuited(what)) => Ok(Outcome::Unsuited(what)),
            Err(Stop::Failed(why)) => Err(why),
        }
    }

    /// How many subfiles the set has.
    #[must_use]
    pub fn subfiles(&self) -> usize {
        self.groups.len()
    }

    /// Writes one whole subfile to `sink`, which may have had other bytes before. Different
    /// subfiles may be written at the same time, also by processes that made the same plan.
    ///
    /// # Errors
    ///
    /// If something cannot be read or written, or there is no such subfile.
    pub fn write(&self, subfile: usize, content: &dyn Content, sink: &dyn Sink) -> Result<()> {
        if subfile >= self.groups.len() {
            let what = format!("there is no subfile {subfile} of {}", self.groups.len());
            return Err(Error::corrupt("the plan", what));
        }
        sink.set_len(0)?;
        let mut out = Out::new(sink);
        let done = match self.kind {
            Kind::Pnetcdf => self.write_by_variable(subfile, content, sink, &mut out),
            Kind::Hdf5 => self.write_by_process(subfile, content, sink, &mut out),
        };
        match done {
            Ok(()) => out.flush(),
            Err(Stop::Failed(why)) => Err(why),
            Err(Stop::Unsuited(what)) => Err(Error::corrupt("the plan", what)),
        }
    }

    /// The records with data in the file; others are zeros.
    pub(super) fn begun(&self, content: &dyn Content) -> u64 {
        self.records.min(self.layout.begun_records(content.size()))
    }

    /// A variable's part of a record in the file that the set is made of.
    pub(super) fn slab(&self, variable: usize, record: u64) -> Step<Slab> {
        let slot = self.layout.slots[variable];
        let Some(begin) = self.layout.offset_of(variable, record) else {
            return unsuited("a record beyond every file");
        };
        let turned = if self.endian() == Endian::Little { slot.element } else { 0 };
        Ok(Slab { begin, element: slot.element, elements: slot.size / slot.element, turned })
    }

    /// The order of the bytes of numbers in the subfiles.
    pub(super) fn endian(&self) -> Endian {
        match self.kind {
            Kind::Hdf5 if cfg!(target_endian = "little") => Endian::Little,
            _ => Endian::Big,
        }
    }

    /// Where the variables lie, told to readers.
    fn tell_places(&mut self, size: u64) -> Step<()> {
        let begins = self.header.variables.iter().map(|variable| variable.begin).collect();
        let told = Places { version: self.header.version, size, begins }.attribute();
        let Some(told) = told else { return unsuited("its variables lie beyond every file") };
        self.places = Some(told);
        Ok(())
    }

    /// The difference that a reader of the set would find to the file, if there is one.
    fn difference(&self, head: &[u8], size: u64) -> Option<String> {
        let read = || -> std::result::Result<(Vec<u8>, u64), String> {
            let subfile = self.placed_head(0)?.write().map_err(|why| why.to_string())?;
            let subfile = parse(&subfile).map_err(|why| why.to_string())?;
            let told = Described::of(&subfile, "it").map_err(|why| why.to_string())?;
            let mut canonical = told.canonical;
            let usual = alignment(&subfile);
            let size = places::assign(&mut canonical, self.records, told.places.as_ref(), usual)?;
            Layout::of(&canonical).map_err(|why| why.to_string())?;
            Ok((canonical.write().map_err(|why| why.to_string())?, size))
        };
        match read() {
            Err(why) => Some(why),
            Ok((bytes, _)) if bytes != head => {
                let at = bytes.iter().zip(head).position(|(one, other)| one != other);
                let at = at.unwrap_or(bytes.len().min(head.len()));
                Some(format!("its header is not as PnetCDF writes it from byte {at} on"))
            }
            Ok((_, found)) if found != size => Some(format!("its size is {size}, not {found}")),
            Ok(_) => None,
        }
    }

    /// The header of a subfile with its places.
    pub(super) fn placed_head(&self, subfile: usize) -> std::result::Result<Header, String> {
        let mut header = self.head(subfile);
        header.assign(Alignment::default()).map_err(|why| why.to_string())?;
        if self.kind == Kind::Hdf5 {
            header.variables.iter_mut().for_each(|variable| variable.begin = 0);
        }
        Ok(header)
    }
}

/// How many writers there are, if each is in one group.
fn writers(groups: &[Vec<u32>]) -> Step<u32> {
    let mut all: Vec<u32> = groups.concat();
    all.sort_unstable();
    if !all.iter().enumerate().all(|(index, writer)| *writer as usize == index) {
        let what = "a writer is in no subfile, or in two";
        return Err(Error::corrupt("the list of subfiles", what).into());
    }
    if groups.is_empty() || groups.iter().any(Vec::is_empty) {
        return unsuited("a subfile without a writer");
    }
    if groups.len() > MOST_FILES || i32::try_from(all.len()).is_err() {
        return unsuited(format!("{} subfiles of {} writers", groups.len(), all.len()));
    }
    Ok(all.len() as u32)
}

fn planned(
    content: &dyn Content,
    owned: &mut dyn Iterator<Item = Result<Owned>>,
    groups: &[Vec<u32>],
    kind: Kind,
) -> Step<Plan> {
    let writers = writers(groups)?;
    let (header, head) = content::header(content)?;
    let Records::Known(records) = header.records else {
        return unsuited("its header does not tell the number of records");
    };
    let told = |why: crate::cdf::Error| Stop::Unsuited(why.to_string());
    let layout = Layout::of(&header).map_err(told)?;
    layout.end(records).map_err(told)?;
    let derive = Derive::new(content, &header, &layout, records, writers);
    let (uses, found) = derive.run(owned)?;
    if let Some(what) = clash(&header, found.len()) {
        return unsuited(what);
    }
    let map = |found: Found| {
        let row = found.dimensions.last().map_or(1, |id| header.dimensions[*id].length);
        Map::of(found, row, writers as usize)
    };
    let maps = found.into_iter().map(map).collect();
    let (groups, places) = (groups.to_vec(), None);
    let (header, layout) = (Box::new(header), Box::new(layout));
    let mut plan = Plan { kind, header, layout, records, writers, groups, uses, maps, places };
    if plan.difference(&head, content.size()).is_some() {
        plan.tell_places(content.size())?;
        if let Some(what) = plan.difference(&head, content.size()) {
            return unsuited(what);
        }
    }
    Ok(plan)
}

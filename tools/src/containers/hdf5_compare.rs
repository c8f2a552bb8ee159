//! Differences between two HDF5 files: the tree, types, shapes, attributes, values.

use super::hdf5_filters;
use super::hdf5_meaning::Meaning;
use super::hdf5_values::{Part, Values};
use crate::progress::Progress;
use aggio_formats::hdf5::{Chunks, Contents, Dataset, Details, Layout, Object, Source, What};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a dataset without chunks that are compared at a time.
const PIECE: u64 = 4 << 20;

/// One of the two files.
pub(super) struct Side<'a> {
    pub(super) source: &'a dyn Source,
    contents: Contents,
    /// The path of each object header.
    paths: HashMap<u64, String>,
}

/// Differences, and notes about objects that could be compared in part only.
#[derive(Default)]
pub(super) struct Found {
    pub(super) differences: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Found {
    /// Differences alone.
    pub(super) fn of(differences: Vec<String>) -> Self {
        Found { differences, notes: Vec::new() }
    }
}

impl<'a> Side<'a> {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// If some of it cannot be read or is not supported, which is named.
    pub(super) fn open(source: &'a dyn Source) -> Result<Self, String> {
        let contents = Contents::read(source).map_err(|why| why.to_string())?;
        let unknown = contents.objects.iter().find_map(|object| match &object.what {
            What::Unknown(why) => Some(why.to_string()),
            _ => None,
        });
        let each = contents.objects.iter();
        let paths = each.filter_map(|one| Some((one.address?, one.path.clone()))).collect();
        unknown.map_or(Ok(Side { source, contents, paths }), Err)
    }

    fn objects(&self) -> BTreeMap<&str, &Object> {
        self.contents.objects.iter().map(|object| (object.path.as_str(), object)).collect()
    }

    fn details(&self, object: &Object) -> Result<Details<'a>, String> {
        let address = object.address.ok_or("an object without an address")?;
        Details::of(self.source, address).map_err(|why| why.to_string())
    }

    fn meaning(&self, object: &Object) -> Result<Meaning<'_>, String> {
        Ok(Meaning { details: self.details(object)?, paths: &self.paths })
    }
}

/// Everything in which two files differ; of values the first of each dataset.
///
/// # Errors
/// If one of them cannot be read.
pub(super) fn differences(
    left: &Side<'_>,
    right: &Side<'_>,
    tell: Progress<'_>,
) -> Result<Found, String> {
    let mut found = Found::default();
    let (ours, theirs) = (left.objects(), right.objects());
    let all = left.contents.data.max(right.contents.data).max(1);
    let mut done = 0;
    for (path, one) in &ours {
        let Some(other) = theirs.get(path) else {
            found.differences.push(format!("{path}: only in the first"));
            continue;
        };
        if kind(one) != kind(other) {
            found.differences.push(format!("{path}: {}, {}", kind(one), kind(other)));
        } else if one.address.is_some() {
            compare((left, one), (right, other), &mut found)
                .map_err(|why| if why.contains(*path) { why } else { format!("{path}: {why}") })?;
        }
        if let What::Dataset(dataset, _) = &one.what {
            done += dataset.bytes().unwrap_or(0);
            tell(done.min(all), all);
        }
    }
    let only = theirs.keys().filter(|path| !ours.contains_key(*path));
    found.differences.extend(only.map(|path| format!("{path}: only in the second")));
    Ok(found)
}

/// The kind of an object; of links also their target.
fn kind(object: &Object) -> String {
    match &object.what {
        What::Group => "group".into(),
        What::Dataset(..) => "dataset".into(),
        What::Datatype => "datatype".into(),
        What::Same(path) => format!("the same as {path}"),
        What::Soft(path) => format!("link to {path}"),
        What::External { file, path } => format!("link to {path} in {file}"),
        What::Unknown(_) => "not known".into(),
    }
}

fn compare(
    (left, one): (&Side<'_>, &Object),
    (right, other): (&Side<'_>, &Object),
    found: &mut Found,
) -> Result<(), String> {
    let (mut ours, mut theirs) = (left.meaning(one)?, right.meaning(other)?);
    attributes(&one.path, &mut ours, &mut theirs, &mut found.differences)?;
    match (&one.what, &other.what) {
        (What::Dataset(first, chunks), What::Dataset(second, others)) => {
            let path = &one.path;
            if first.space != second.space {
                let (one, other) = (shape(first), shape(second));
                found.differences.push(format!("{path}: shape {one}, {other}"));
                return Ok(());
            }
            let (one, other) = (ours.datatype()?, theirs.datatype()?);
            if one != other {
                found.differences.push(format!("{path}: type {one}, {other}"));
                return Ok(());
            }
            let mut sides = Sides {
                left: Values::of(left.source, ours.details(), first, chunks)?,
                right: Values::of(right.source, theirs.details(), second, others)?,
                path,
            };
            sides.compare(&one, &mut ours, &mut theirs, found)
        }
        (What::Datatype, What::Datatype) => {
            let (one_type, other_type) = (ours.datatype()?, theirs.datatype()?);
            if one_type != other_type {
                found.differences.push(format!("{}: type {one_type}, {other_type}", one.path));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn shape(of: &Dataset) -> String {
    let each = of.space.shape().iter().zip(of.space.most());
    let all: Vec<String> = each
        .map(|(now, most)| match most {
            Some(most) if most == now => now.to_string(),
            Some(most) => format!("{now} of at most {most}"),
            None => format!("{now} of unlimited"),
        })
        .collect();
    format!("({})", all.join(", "))
}

fn attributes(
    path: &str,
    ours: &mut Meaning<'_>,
    theirs: &mut Meaning<'_>,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let (left, right) = (ours.attributes()?, theirs.attributes()?);
    for (name, (of, value)) in &left {
        match right.get(name) {
            None => found.push(format!("{path}: attribute {name}: only in the first")),
            Some((other, _)) if of != other => {
                found.push(format!("{path}: attribute {name}: {of}, {other}"));
            }
            Some((_, other)) if value != other => {
                found.push(format!("{path}: attribute {name}: another value"));
            }
            Some(_) => {}
        }
    }
    let only = right.keys().filter(|name| !left.contains_key(*name));
    found.extend(only.map(|name| format!("{path}: attribute {name}: only in the second")));
    Ok(())
}

/// A dataset of both files, of the same shape and type.
struct Sides<'a> {
    left: Values<'a>,
    right: Values<'a>,
    path: &'a str,
}

impl Sides<'_> {
    fn compare(
        &mut self,
        of: &aggio_formats::hdf5::Type,
        ours: &mut Meaning<'_>,
        theirs: &mut Meaning<'_>,
        found: &mut Found,
    ) -> Result<(), String> {
        let (left, right) = (self.left.dataset, self.right.dataset);
        let unknown =
            [left, right].iter().find_map(|dataset| hdf5_filters::unknown(&dataset.filters));
        if let Some(filter) = unknown {
            self.fill(of, ours, theirs, self.covers_all(), found)?;
            return self.stored(&filter, found);
        }
        let tile = self.tile();
        let (tiles, all) = self.tiles(&tile);
        self.fill(of, ours, theirs, all, found)?;
        // Of lists it depends on the file how many bytes an address has.
        let sizes = [left, right].map(|dataset| dataset.datatype.size as usize);
        for part in tiles {
            let part = self.part(&part, &tile);
            let (one, other) = (self.left.read(&part)?, self.right.read(&part)?);
            let pairs = one.chunks(sizes[0]).zip(other.chunks(sizes[1]));
            for (number, (one, other)) in pairs.enumerate() {
                let same = match of.is_plain() {
                    true => one == other,
                    false => ours.value(of, one)? == theirs.value(of, other)?,
                };
                if !same {
                    let at = position(number as u64, &part);
                    let told = [one, other].map(|value| left.datatype.show(value)).join(", ");
                    found.differences.push(format!("{}: element {at}: {told}", self.path));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Compares the fill values, unless `all` elements are stored.
    fn fill(
        &self,
        of: &aggio_formats::hdf5::Type,
        ours: &mut Meaning<'_>,
        theirs: &mut Meaning<'_>,
        all: bool,
        found: &mut Found,
    ) -> Result<(), String> {
        let fills = [&self.left, &self.right].map(Values::fill);
        let differ = match of.is_plain() {
            true => fills[0] != fills[1],
            false => ours.value(of, &fills[0])? != theirs.value(of, &fills[1])?,
        };
        if !all && differ {
            let told = fills.map(|fill| self.left.dataset.datatype.show(&fill)).join(", ");
            found.differences.push(format!("{}: where nothing is stored: {told}", self.path));
        }
        Ok(())
    }

    /// Whether both have a chunk for each place, so that no fill value is found.
    fn covers_all(&self) -> bool {
        let Layout::Chunked(chunked) = &self.left.dataset.layout else { return true };
        let places = self.left.dataset.space.shape().iter().zip(&chunked.shape);
        let places = places.fold(1u64, |all, (size, of)| all.saturating_mul(size.div_ceil(*of)));
        let of = |chunks: &Chunks| chunks.iter().count() as u64;
        of(self.left.chunks) >= places && of(self.right.chunks) >= places
    }

    /// Compares chunks as they are stored.
    fn stored(&self, filter: &str, found: &mut Found) -> Result<(), String> {
        let (left, right) = (&self.left, &self.right);
        let shape = |of: &Dataset| match &of.layout {
            Layout::Chunked(chunked) => Some(chunked.shape.clone()),
            _ => None,
        };
        let same = left.dataset.filters == right.dataset.filters;
        if !same || shape(left.dataset) != shape(right.dataset) {
            let what = "the chunks or filters of both are not the same";
            return Err(format!("cannot be compared: filter {filter} is not known, and {what}"));
        }
        let note = format!("{}: compared as stored: filter {filter} is not known", self.path);
        found.notes.push(note);
        let of = |chunks: &Chunks| chunks.iter().map(|one| one.offset).collect::<BTreeSet<_>>();
        let (ours, theirs) = (of(left.chunks), of(right.chunks));
        for at in ours.union(&theirs) {
            let differ = match (left.chunks.at(at), right.chunks.at(at)) {
                (Some(one), Some(other)) => {
                    let read = |values: &Values<'_>, place, count: u64| {
                        let mut bytes = vec![0; count as usize];
                        values.source.read(&mut bytes, place).map_err(|why| why.to_string())?;
                        Ok::<_, String>(bytes)
                    };
                    one.stored != other.stored
                        || one.mask != other.mask
                        || read(left, one.place, one.stored)?
                            != read(right, other.place, other.stored)?
                }
                _ => true,
            };
            if differ {
                let what = format!("{}: the stored bytes of the chunk at {at:?}", self.path);
                found.differences.push(what);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The shape of the parts in which both are read.
    fn tile(&self) -> Vec<u64> {
        for values in [&self.left, &self.right] {
            if let Layout::Chunked(chunked) = &values.dataset.layout {
                return chunked.shape.clone();
            }
        }
        let mut left = (PIECE / u64::from(self.left.dataset.datatype.size)).max(1);
        let shape = self.left.dataset.space.shape();
        let mut tile: Vec<u64> = shape
            .iter()
            .rev()
            .map(|length| {
                let some = (*length).clamp(1, left);
                left = if some == *length { (left / some).max(1) } else { 1 };
                some
            })
            .collect();
        tile.reverse();
        tile
    }

    /// The parts in which one of both has something, and whether these are all there are.
    fn tiles(&self, tile: &[u64]) -> (Vec<Vec<u64>>, bool) {
        let shape = self.left.dataset.space.shape();
        if self.left.dataset.space.elements() == Some(0) {
            return (Vec::new(), true);
        }
        let mut all = shape.iter().zip(tile).map(|(length, of)| length.div_ceil(*of));
        let all = all.try_fold(1_u64, u64::checked_mul);
        let mut found = BTreeSet::new();
        for values in [&self.left, &self.right] {
            let Layout::Chunked(chunked) = &values.dataset.layout else {
                if matches!(values.dataset.layout, Layout::Contiguous { address: None, .. }) {
                    continue;
                }
                return (grid(&vec![0; shape.len()], shape, tile), true);
            };
            for chunk in values.chunks.iter() {
                let ends = chunk.offset.iter().zip(&chunked.shape).zip(shape);
                let ends: Vec<u64> = ends.map(|((at, of), end)| (at + of).min(*end)).collect();
                let first = chunk.offset.iter().zip(tile).map(|(at, of)| at / of * of);
                found.extend(grid(&first.collect::<Vec<_>>(), &ends, tile));
            }
        }
        let is_all = Some(found.len() as u64) == all;
        (found.into_iter().collect(), is_all)
    }

    fn part(&self, start: &[u64], tile: &[u64]) -> Part {
        let shape = self.left.dataset.space.shape();
        let count = start.iter().zip(tile).zip(shape).map(|((at, of), end)| *of.min(&(end - at)));
        Part { start: start.to_vec(), count: count.collect() }
    }
}

/// The first elements of tiles from `first` to before `ends`.
fn grid(first: &[u64], ends: &[u64], tile: &[u64]) -> Vec<Vec<u64>> {
    let (mut all, mut at) = (Vec::new(), first.to_vec());
    loop {
        all.push(at.clone());
        let Some(turn) = (0..at.len()).rev().find(|d| at[*d] + tile[*d] < ends[*d]) else {
            return all;
        };
        at[turn] += tile[turn];
        at[turn + 1..].copy_from_slice(&first[turn + 1..]);
    }
}

/// Where the element with a number in a part stands in the dataset.
fn position(number: u64, part: &Part) -> String {
    let mut rest = number;
    let mut at: Vec<String> = part
        .start
        .iter()
        .zip(&part.count)
        .rev()
        .map(|(start, count)| {
            let here = start + rest % count;
            rest /= count;
            here.to_string()
        })
        .collect();
    at.reverse();
    format!("({})", at.join(", "))
}

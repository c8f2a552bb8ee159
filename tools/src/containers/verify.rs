//! `aggio verify`: whether two files, containers or sets hold the same.

use super::facts::Facts;
use super::hdf5_compare::{self, Found, Side};
use super::in_container::InContainer;
use super::source::Source as Bytes;
use super::{PIECE, compare, netcdf, sets};
use crate::progress::{self, Progress};
use crate::{Answer, exit};
use agg_core::blob::is_container;
use aggio_formats::Logical;
use aggio_formats::files::{Folder, OnDisk};
use aggio_formats::hdf5::{OnlyFile, Source, is_hdf5};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Differences that are printed.
const MOST_TOLD: usize = 20;

/// Arguments of `aggio verify`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file, a container, or the name that a set of netCDF files stands for
    first: PathBuf,
    /// Another. netCDF files are compared by dimensions, attributes, variables and values, HDF5
    /// files by groups, links, attributes, types, shapes and values, others byte by byte
    second: PathBuf,
    /// Compare the bytes of netCDF and HDF5 files, too
    #[arg(long)]
    bytes: bool,
    /// The differences as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sets: sets::Flags,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let (found, findings) = match progress::show("comparing", |tell| self.differences(tell)) {
            Ok(Found { differences, notes }) => {
                (differences, notes.iter().map(|note| format!("verify: {note}")).collect())
            }
            Err(why) => {
                let failed = Answer::failed(format!("verify: {why}"));
                return Answer { status: Some(exit::UNTOLD), ..failed };
            }
        };
        let status = if found.is_empty() { exit::DONE } else { exit::DIFFERENT };
        let text = if self.json {
            let object = json!({ "schema": 1, "same": found.is_empty(), "differences": found });
            format!("{object:#}\n")
        } else {
            let lines = found.iter().take(MOST_TOLD).map(|line| format!("{line}\n"));
            let rest = found.len().saturating_sub(MOST_TOLD);
            let more =
                if rest > 0 { format!("and {rest} more differences\n") } else { String::new() };
            lines.chain([more]).collect()
        };
        Answer { text, findings, status: Some(status) }
    }

    fn differences(&self, tell: Progress<'_>) -> Result<Found, String> {
        if !self.bytes
            && let (Some(first), Some(second)) = (self.open(&self.first)?, self.open(&self.second)?)
            && first.is_netcdf()
            && second.is_netcdf()
        {
            return compare::differences(&first, &second, tell).map(Found::of);
        }
        if !self.bytes
            && let (Some(first), Some(second)) = (self.hdf5(&self.first)?, self.hdf5(&self.second)?)
        {
            let [first, second] = [&*first, &*second].map(Side::open);
            return hdf5_compare::differences(&first?, &second?, tell);
        }
        self.differing_bytes(tell).map(Found::of)
    }

    /// Opens the netCDF file at a path; `None` if it is another file.
    fn open(&self, path: &Path) -> Result<Option<Logical>, String> {
        if is_container(path) {
            return InContainer::open(path)?.into_netcdf();
        }
        match sets::open(path, self.sets)? {
            Some(file) => Ok(Some(file)),
            None => netcdf::of_file(path),
        }
    }

    /// Opens the HDF5 file at a path; `None` if it is another file.
    fn hdf5(&self, path: &Path) -> Result<Option<Box<dyn Source>>, String> {
        let source: Box<dyn Source> = if is_container(path) {
            Box::new(OnlyFile(InContainer::open(path)?))
        } else if let Some(file) = sets::open(path, self.sets)? {
            Box::new(file)
        } else {
            match Folder::of(path) {
                Some((folder, name)) => Box::new(OnlyFile(OnDisk::new(folder, vec![name], 1))),
                None => return Ok(None),
            }
        };
        let is_one = is_hdf5(&*source).map_err(|why| why.to_string())?;
        Ok(is_one.then_some(source))
    }

    fn differing_bytes(&self, tell: Progress<'_>) -> Result<Vec<String>, String> {
        let size = Facts::with(&self.first, self.sets).map_or(0, |facts| facts.size);
        let first = Bytes::open(&self.first, self.sets)?;
        let second = Bytes::open(&self.second, self.sets)?;
        let (mut place, mut left, mut right) = (0_u64, vec![0; PIECE], vec![0; PIECE]);
        loop {
            // Between two places of data both are zeros.
            place = first.data_from(place)?.min(second.data_from(place)?);
            let counts = [first.read_at(&mut left, place)?, second.read_at(&mut right, place)?];
            let common = counts[0].min(counts[1]);
            let differs = |index: &usize| left[*index] != right[*index];
            if let Some(index) = (0..common).find(differs) {
                return Ok(vec![format!("byte {}", place + index as u64)]);
            }
            if counts[0] != counts[1] {
                let (longer, end) = if counts[0] > common { (0, common) } else { (1, common) };
                let name = [&self.first, &self.second][longer].display();
                return Ok(vec![format!("{name} goes on behind byte {}", place + end as u64)]);
            }
            if common == 0 {
                return Ok(Vec::new());
            }
            place += common as u64;
            tell(place, size.max(place));
        }
    }
}

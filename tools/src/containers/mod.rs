//! Commands on containers, sets of netCDF files, and files beside them.

pub(crate) mod cat;
pub(crate) mod fsck;
pub(crate) mod index;
pub(crate) mod ls;
pub(crate) mod merge;
pub(crate) mod recover;
pub(crate) mod split;
pub(crate) mod stat;
pub(crate) mod verify;

mod assemble;
mod blobs;
mod compare;
mod destination;
mod facts;
mod guarded;
mod hdf5;
mod hdf5_advice;
mod hdf5_compare;
mod hdf5_filters;
mod hdf5_meaning;
mod hdf5_values;
mod in_container;
mod netcdf;
mod poured;
mod sets;
mod source;
mod stream;

pub(crate) use sets::Hole;

use std::fmt::Display;
use std::path::Path;

/// The error if a file has the name already.
const THERE: &str = "there already (--force replaces it)";

/// Bytes that are moved at a time.
const PIECE: usize = 4 << 20;

/// So many threads as were asked for, or one for each core if that is 0.
fn threads(asked: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    if asked == 0 { cores() } else { asked }
}

/// Bytes that a file, a container or a set takes in the file system: how long it takes to go
/// through it; 0 if that is not known.
fn stored(path: &Path) -> u64 {
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| found.is_file()) {
        return std::fs::metadata(path).map_or(0, |found| found.len());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// An error with the path in front, unless it names one itself.
fn at(path: &Path, why: impl Display) -> String {
    let why = why.to_string();
    let path = path.display().to_string();
    if why.contains(&path) { why } else { format!("{path}: {why}") }
}

/// The error about the name of a file that is to be made, or about the file.
fn not_made(path: &Path, why: &agg_core::Error) -> String {
    // For other objects of that name, the error gives their type.
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    if why.errno() == merge::EEXIST && is_file { at(path, THERE) } else { at(path, why) }
}

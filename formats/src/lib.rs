//! netCDF classic and HDF5 files, and sets of files that stand for one of them.
//!
//! ```text
//! set.rs       which set a name stands for, and which files belong to one; set/names.rs renames it
//!   e3sm/        blobs of E3SM-IO, in PnetCDF's layout and in HDF5
//!   subfiling/   subfiles of PnetCDF
//!   stripes/     subfiles of HDF5
//!   logical/     the one file that a set stands for: read_at, windows, a description of its parts
//! cdf/         header and layout of a netCDF classic file
//! hdf5/        where a contiguous dataset lies in an HDF5 file, without libhdf5
//! plugin.rs    netCDF classic files for the engine's plans
//! recast.rs    containers that become sets         one_file.rs sets that the engine reads
//! set_driver.rs  sets as a kind of storage of the engine
//! files.rs     many files, few of them open     gather.rs   scattered bytes, read in large pieces
//! ```

#![forbid(unsafe_code)]

pub mod cdf;
mod e3sm;
mod error;
pub mod files;
mod gather;
pub mod hdf5;
mod logical;
mod one_file;
pub mod plain;
mod plugin;
mod recast;
pub mod set;
pub mod set_driver;
mod stripes;
mod subfiling;

/// An error without a number of the system's.
const EIO: i32 = libc::EIO;

/// Sets of more files than this are refused.
const MOST_FILES: usize = 1 << 17;

pub use e3sm::write as blobs;
pub use error::{Error, Kind, Result};
pub use logical::{
    Cache, Coverage, Description, FileFacts, Holes, Logical, Options, Slab, Windows, Written,
};
pub use one_file::{OneFile, told};
pub use plugin::FORMATS;
pub use recast::E3sm;
pub use set::{Set, Sets};
pub use set_driver::{Finder, SetDriver};

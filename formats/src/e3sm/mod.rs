//! Blob files of E3SM-IO: each subfile has the data that the processes of one node wrote, beside
//! tables that say where they belong.
//!
//! ```text
//! headers.rs   the canonical header in the header of a subfile, and the additions to it
//! storage.rs   where a subfile has its tables and data in PnetCDF's layout, blobs.rs: in HDF5's
//! tables.rs    which canonical elements lie where
//! places.rs    where canonical variables lie, if not where PnetCDF puts them
//! set.rs       all subfiles: whether they belong together, and the file that they stand for
//! coverage.rs  whether each element was written, and once
//! source.rs    the data of the set; scatter.rs puts those of sorted blobs in their places
//! write/       sets of a file that is complete
//! ```

mod blobs;
mod coverage;
mod headers;
mod places;
mod scatter;
mod set;
mod source;
mod storage;
mod tables;
pub mod write;

pub(crate) use set::open;
pub(crate) use storage::{read_header, subfiles_of};

#[cfg(test)]
mod tests;

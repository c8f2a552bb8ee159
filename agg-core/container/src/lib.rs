//! Containers: directories that stand for one file. Independent of MPI-IO and of drivers.
//!
//! The folders are layers: a file refers to its own folder and to those before it only.
//!
//! | Folder | Content |
//! |---|---|
//! | `directory` | the directory of a container and the files in it |
//! | [`output`] | files that get their name when they are complete |
//! | `format` | frames, runs, truncations and the manifest as bytes |
//! | `order` | the counter of all writers, and the locks of processes |
//! | `log` | appending to a log, walking over its frames, its torn end |
//! | `index` | runs and pieces by their places in the file |
//! | `reading` | the bytes of the file |
//! | `writing` | changes of the file, and the seal |
//! | `file` | name, attributes and locks of the file |
//! | `repair` | checks, recovery and repairs |
//! | `transfer` | merging, splitting, and sets of other files |
//! | [`blob`] | the interface: names only |

pub mod blob;

mod directory;
mod errors;
mod file;
mod format;
mod index;
mod log;
mod order;
pub mod output;
mod reading;
mod repair;
mod transfer;
mod writing;

#[cfg(any(test, feature = "testing"))]
pub mod refused;
#[cfg(test)]
mod tests;

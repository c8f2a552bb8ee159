//! Sets of blobs, in the layouts of E3SM-IO, of a netCDF file that is complete.
//!
//! ```text
//! content.rs   the file, and the writers of its bytes; where a subfile goes
//! derive.rs    the writers of elements -> maps.rs: the decompositions that the variables share
//! plan.rs      the parts of the set, and whether it stands for exactly that file
//! head.rs      the header of a subfile
//! by_variable.rs, by_process.rs: one subfile from beginning to end, in PnetCDF's layout and in
//!              HDF5's; tables.rs are its tables, slabs.rs gathers elements, moves.rs copies those
//!              that lie together
//! crew.rs      threads that write parts of a subfile side by side
//! out.rs       the bytes of a subfile, written in large pieces
//! ```

mod by_process;
mod by_variable;
mod content;
mod crew;
mod derive;
mod head;
mod maps;
mod moves;
mod out;
mod plan;
mod slabs;
mod tables;

pub use content::{Content, Owned, Sink, Store, Stored};
pub use plan::{Kind, Outcome, Plan};

use crate::error::Error;

/// The name of a subfile of the set `set`.
#[must_use]
pub fn file_name(set: &str, subfile: usize) -> String {
    format!("{set}.{subfile:04}")
}

/// Why there is no set of a file.
enum Stop {
    /// The convention cannot express it.
    Unsuited(String),
    /// It could not be read.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(why: Error) -> Self {
        Stop::Failed(why)
    }
}

/// A step towards a set.
type Step<T> = Result<T, Stop>;

/// The convention cannot express it.
fn unsuited<T>(what: impl Into<String>) -> Step<T> {
    Err(Stop::Unsuited(what.into()))
}

#[cfg(test)]
mod tests;

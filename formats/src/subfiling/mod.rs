//! PnetCDF's own subfiling: a master file with empty variables, and subfiles that share one
//! dimension of each.
//!
//! ```text
//! master.rs   the canonical header in that of the master, and which subfile has which part of a
//!             variable
//! set.rs      master and subfiles together
//! ```

mod master;
mod set;

pub(crate) use master::subfiles;
pub(crate) use set::open;

/// The name of a subfile.
pub(crate) fn name_of(master: &str, subfile: usize) -> String {
    format!("{master}.subfile_{subfile}.nc")
}

#[cfg(test)]
mod tests;

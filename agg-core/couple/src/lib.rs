//! Files that programs exchange in memory: one process of the user, the agent, knows their names
//! and generations; programs get descriptors of them from it.

pub mod agent;
pub mod client;
pub mod inspect;

mod areas;
mod fd;
mod hosted;
mod huge_pages;
mod netcdf_header;
mod peers;
mod persistence;
mod place;
mod poll;
mod protocol;
mod records;
mod registry;
#[cfg(test)]
mod seeds;
mod spares;
mod spill_directory;
mod spool;
#[cfg(test)]
mod tests;
mod worker;

pub use client::{
    Client, Open, Opened, Parts, Stat, Viewed, Viewer, coupled_name, is_away, is_on_disk,
};
pub use netcdf_header::{NUMBER, covers_number};
pub use place::Place;
pub use protocol::Before;

//! Files that programs exchange in memory: one process of the user, the agent, knows their names
//! and generations; programs get descriptors of them from it.

pub mod agent;
pub mod client;
pub mod inspect;

mod areas;
mod classic;
mod fd;
mod folder;
mod hosted;
mod huge;
mod keeper;
mod peers;
mod place;
mod poll;
mod protocol;
mod records;
mod registry;
#[cfg(test)]
mod seeds;
mod spares;
mod spool;
#[cfg(test)]
mod tests;
mod worker;

pub use classic::{NUMBER, covers_number};
pub use client::{
    Client, Open, Opened, Parts, Stat, Viewed, Viewer, coupled_name, is_away, is_on_disk,
};
pub use place::Place;
pub use protocol::Before;

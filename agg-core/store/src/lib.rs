//! Storage: the drivers, and access to a file by one rank. Independent of collective calls.

// The paths of `forward_driver!` hold in every crate.
extern crate self as aggio_store;

pub mod driver;
pub mod independent;

//! Storage: the drivers, and access to a file by one rank. Independent of collective calls.

pub mod driver;
pub mod independent;

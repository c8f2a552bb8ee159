//! Storage: the drivers, and access to a file by one rank. Knows no collective calls.

pub mod driver;
pub mod independent;

//! The engine of aggio, in the order in which a request travels:
//!
//! ```text
//! File (amode, view, pointers)            file/        what the caller means
//!   -> Memory + View (type trees)         datatype/    which bytes, compactly
//!   -> Plan (domains, aggregators)        plan/        who does what
//!   -> exchange between ranks             exchange/    over a Transport
//!   -> Driver (the function table)        driver/      the bytes reach the file
//! ```
//!
//! Nothing in this crate names an MPI symbol or interposes one: ranks may be threads of a unit test.

pub mod allocate;
pub mod blob;
pub mod caches;
mod checksum;
pub mod complaint;
mod copy;
pub mod datatype;
pub mod driver;
pub mod error;
pub mod exchange;
pub mod extent;
pub mod file;
pub mod file_systems;
pub mod format;
pub mod group;
pub mod hints;
pub mod independent;
pub mod lanes;
pub mod log;
pub mod meeting;
pub mod memory;
pub mod node;
pub mod os;
pub mod output;
pub mod pattern;
pub mod pending;
pub mod plan;
#[cfg(test)]
mod refused;
pub mod report;
pub mod rules;
pub mod settings;
pub mod spelling;
pub mod spool;
pub mod tags;
pub mod task;
pub mod transport;
pub mod view;
pub mod workers;

pub use error::{Error, ErrorClass, Result};
pub use extent::Extent;

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

pub mod exchange;
pub mod file;
pub mod pending;
pub mod spool;

use aggio_base::checksum;
pub use aggio_base::{
    Error, ErrorClass, Extent, Result, allocate, caches, complaint, error, extent, file_systems,
    log, os, pattern, report, spelling,
};

use aggio_types::copy;
pub use aggio_types::{datatype, memory, view};

pub use aggio_config::{hints, rules, settings};

pub use aggio_comm::{group, lanes, meeting, node, tags, task, transport, workers};

pub use aggio_plan::{format, plan};

pub use aggio_container::{blob, output};

pub use aggio_store::{driver, independent};

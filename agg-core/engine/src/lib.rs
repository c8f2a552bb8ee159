//! The engine of aggio, in the order in which a request travels:
//!
//! ```text
//! File (amode, view, pointers)            file/        the request of the caller
//!   -> Memory + View (type trees)         types        which bytes, compactly
//!   -> Plan (domains, aggregators)        plan         the part of each rank
//!   -> exchange between ranks             exchange/    over a Transport
//!   -> Driver (the function table)        store        the bytes reach the file
//! ```
//!
//! Nothing in this crate names an MPI symbol or interposes one: ranks may be threads of a unit
//! test.

mod direction;
mod engine;
pub mod exchange;
pub mod file;

pub use direction::Direction;
pub use engine::Engine;

//! Buffers in the memory of graphics processors: their bytes pass through memory of the host.
//!
//! ```text
//! libraries   the drivers' libraries that the program has loaded
//! library     one of them
//! api         calls of a driver: recognise an address, copy, pin
//! cuda, hip, level_zero
//! ordinary    memory for which none is asked
//! places      where the bytes of a buffer are; copies between them and the host
//! bytes       memory of the host for them
//! staged      a call's data in memory of the host
//! ```
//!
//! A driver is that of a device here, not one of the engine's for a kind of file system.
//!
//! The engine sees memory of the host only: a write copies before it starts, a read after it has
//! ended. So writes that are kept back never need a driver later.

mod api;
mod bytes;
mod cuda;
mod hip;
mod level_zero;
mod libraries;
mod library;
mod ordinary;
mod places;
mod staged;

pub use staged::{Found, Staged, find};

//! MPI programs: what the standard promises, on one host and on several, and what it costs.

mod battery;
mod differential;
mod faults;
mod gpu;
mod handles;
mod harness;
mod hosts;
mod limits;
mod litmus;
mod memory_limit;
mod opens;
mod predicted;
mod requests;
mod stale;
mod visibility;

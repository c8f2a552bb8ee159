//! MPI programs: the promises of the standard, on one host and on several, and their cost.

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

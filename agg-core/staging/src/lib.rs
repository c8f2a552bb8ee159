//! Bytes that wait before they reach the file: pending writes, write-behind, stages, and the spool
//! of programs without MPI. Independent of MPI-IO calls.

pub mod pending;
pub mod spool;
pub mod stage;
#[cfg(test)]
mod tests;
pub mod write_behind;

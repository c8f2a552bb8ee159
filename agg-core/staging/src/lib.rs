//! Bytes that wait before they reach the file: copies of writes, what a rank holds back of an open
//! file, and the spool of programs without MPI. Knows no MPI-IO calls.

pub mod pending;
pub mod spool;
pub mod stage;
#[cfg(test)]
mod tests;
pub mod write_behind;

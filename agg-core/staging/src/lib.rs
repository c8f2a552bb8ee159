//! Bytes that wait before they reach the file: copies of writes, and the spool of programs without
//! MPI. Knows no MPI-IO calls.

pub mod pending;
pub mod spool;

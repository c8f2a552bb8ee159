//! Containers: directories that stand for one file. Independent of MPI-IO and of drivers.

pub mod blob;
pub mod output;
#[cfg(any(test, feature = "testing"))]
pub mod refused;

//! Containers: directories that stand for one file. Knows no MPI-IO and no drivers.

pub mod blob;
pub mod output;
#[cfg(any(test, feature = "testing"))]
pub mod refused;

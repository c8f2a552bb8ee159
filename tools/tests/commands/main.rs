//! The commands of `aggio`: their output, files and exit statuses.

mod containers;
mod counted;
mod documents;
mod exit_statuses;
mod merge_to;
#[path = "../mounted/mod.rs"]
mod mounted;
mod netcdf;
mod netcdf_hostile;
mod outputs;
mod simulation;
mod streams;

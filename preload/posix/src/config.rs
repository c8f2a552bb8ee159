//! The environment of the process, as the host has read it.

use super::host::{Config, host};
use agg_core::driver::Drivers;
use agg_core::{Error, Result};
use aggio_formats::SetDriver;

/// The settings of the environment.
pub fn get() -> &'static Config {
    (host().config)()
}

/// The drivers of files of MPI-IO, with the rules for containers and sets.
pub(crate) fn drivers() -> &'static Drivers {
    get().engine.drivers()
}

/// The sets that names stand for.
///
/// # Errors
/// `ENOENT` if names never stand for sets.
pub(crate) fn sets() -> Result<&'static SetDriver> {
    let none = || Error::os("open", &std::io::Error::from_raw_os_error(libc::ENOENT));
    get().sets.as_ref().ok_or_else(none)
}

/// Whether a set called `path` was made of a container, and becomes one to be changed.
pub(crate) fn remakes(path: &str) -> bool {
    drivers().containers().remakes(path)
}

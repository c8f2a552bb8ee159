//! The environment of the process, as the host has read it.

use super::host::process;
use agg_core::hints::Sources;
use agg_core::settings::Settings;

/// What the environment says.
pub struct Config {
    /// The switches.
    pub settings: Settings,
    /// Hints that do not come from the program.
    pub sources: Sources,
}

/// What the environment says.
pub fn get() -> &'static Config {
    (process().host.config)()
}

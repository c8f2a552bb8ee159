//! The environment of the process, as the host has read it.

use super::host::{Config, process};

/// What the environment says.
pub fn get() -> &'static Config {
    (process().host.config)()
}

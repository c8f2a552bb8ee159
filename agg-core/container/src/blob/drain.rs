//! Moves logs that wait elsewhere into their container, once their writers have ended.

use super::alive;
use super::container::Container;
use super::dir::{Dir, log_name};
use aggio_base::Result;
use std::path::Path;

/// Moves the logs of the container `path` that wait in a directory of this node, and that nobody
/// writes, into the container. Returns how many there were.
///
/// # Errors
///
/// `EBUSY` if somebody writes one, after all others were moved; if one cannot be read, or not be
/// stored. Logs that were not moved stay where they are and are found there.
pub fn drain(path: &Path) -> Result<usize> {
    drain_all(&Container::open(path)?.shared.dir)
}

/// The same of the open directory of a container.
pub(crate) fn drain_all(dir: &Dir) -> Result<usize> {
    let (mut drained, mut used) = (0, None);
    for id in dir.logs()? {
        match dir.drain_log(&log_name(id), alive::is_abandoned) {
            // Its writer drains it, or a later call.
            Err(error) if error.errno() == libc::EBUSY => used = Some(error),
            found => drained += usize::from(found?.is_some()),
        }
    }
    used.map_or(Ok(drained), Err)
}

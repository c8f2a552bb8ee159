//! Listings of directories.

use crate::peers::page;
use crate::protocol::Reply;
use crate::registry::{Process, Registry};

/// The names of files in a directory that this node owns and the process can open, behind `after`.
pub(super) fn list(
    registry: &Registry,
    process: Process,
    dir: &[u8],
    after: &[u8],
    view: bool,
) -> Reply {
    let found = registry.list(process, dir, view);
    page(found.into_iter().filter(|name| &**name > after), false)
}

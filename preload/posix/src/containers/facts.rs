//! The results of `stat` and `statx` on a container.

use super::super::errno;
use super::super::facts::Facts;
use super::table::OpenContainer;
use agg_core::blob::Attributes;
use libc::c_int;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds and nanoseconds since 1970.
fn parts(time: SystemTime) -> (i64, i64) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos().into()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => (-(before.as_secs() as i64), 0),
                n => (-(before.as_secs() as i64) - 1, 1_000_000_000 - i64::from(n)),
            }
        }
    }
}

/// The device of the directory that the container is.
pub(super) fn device(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |facts| facts.dev())
}

/// The results of `stat` on a file with these attributes.
pub(super) fn facts(known: &Attributes, device: u64, names: u32) -> Facts {
    Facts {
        device,
        inode: known.inode,
        mode: known.mode,
        names,
        owner: (known.uid, known.gid),
        size: known.size,
        blocks: known.blocks,
        times: [known.atime, known.mtime, known.ctime].map(parts),
    }
}

/// Those of an open container.
///
/// # Errors
/// As [`OpenContainer::locked`].
pub(super) fn of_open(open: &OpenContainer) -> Result<Facts, c_int> {
    let _errno = errno::Keep::new();
    open.locked(|open, state| {
        let names = if state.is_nameless() { 0 } else { 1 };
        Ok(facts(&state.attributes()?, open.identity.0, names))
    })
}

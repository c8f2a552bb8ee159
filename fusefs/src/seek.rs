//! Where data and holes are in a file that has no holes.

use std::io::Result;

/// The next data or hole of a file in which every byte counts as data, because the kernel may have
/// bytes of a mapping that it has not passed on; its end counts as a hole.
pub(crate) fn in_data(start: u64, size: u64, data: bool) -> Result<u64> {
    if start >= size {
        return Err(rustix::io::Errno::NXIO.into());
    }
    Ok(if data { start } else { size })
}

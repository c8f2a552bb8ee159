//! Where the bytes of a merge go: to an ordinary file, which is made anew, or to something that takes
//! bytes one after the other.

use super::at;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Where bytes go.
pub(super) enum Destination {
    /// An ordinary file, which may not be there yet.
    File,
    /// Standard output, a FIFO or a device.
    Stream(File),
}

impl Destination {
    /// That of the name `to`; a device that stores blocks is written to only with `force`.
    pub(super) fn of(to: &Path, force: bool) -> Result<Self, String> {
        let told = |why: std::io::Error| at(to, why);
        if to.as_os_str() == STANDARD_OUTPUT {
            return standard_output().map(Destination::Stream).map_err(told);
        }
        // What does not exist, and a link to that, is looked at by whoever makes the file.
        let Ok(found) = to.metadata() else { return Ok(Destination::File) };
        let kind = found.file_type();
        if kind.is_block_device() && !force {
            return Err(at(to, "a device that stores data (--force writes over them)"));
        }
        if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
            let stream = File::options().write(true).open(to).map_err(told)?;
            return Ok(Destination::Stream(stream));
        }
        // `/dev/stdout`, if that is a file.
        let is_link = to.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let output = standard_output().map_err(told)?;
        let same =
            |other: std::fs::Metadata| (other.dev(), other.ino()) == (found.dev(), found.ino());
        if is_link && output.metadata().is_ok_and(same) {
            return Ok(Destination::Stream(output));
        }
        Ok(Destination::File)
    }
}

fn standard_output() -> std::io::Result<File> {
    Ok(File::from(rustix::stdio::stdout().try_clone_to_owned()?))
}

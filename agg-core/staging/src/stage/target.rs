//! The file that belongs to a stage, even if its name leads to another one by now.

use aggio_base::{Error, Result};
use aggio_comm::transport::Identity;
use aggio_store::driver::Driver;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// The file that `base` has open, to be asked for its version; `None` if it is no ordinary one.
///
/// # Errors
/// The name leads to another file by now, and the descriptor of `base` cannot be opened again:
/// without the stage that others use, their bytes would not be seen.
pub(super) fn target_of(base: &dyn Driver, path: &str) -> Result<Option<File>> {
    let Some(identity) = base.identity() else { return Ok(None) };
    let descriptor = base.offer().map(|offer| offer.address.descriptor);
    let descriptor = descriptor.map(|number| format!("/proc/self/fd/{number}"));
    let mut how = File::options();
    how.read(true).custom_flags(libc::O_PATH);
    let mut failed = None;
    for name in descriptor.iter().map(String::as_str).chain([path]) {
        match how.open(name).and_then(|file| file.metadata().map(|facts| (file, facts))) {
            Ok((file, facts)) => {
                let found = Identity { device: facts.dev(), inode: facts.ino() };
                if found == identity {
                    return Ok(facts.is_file().then_some(file));
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    let failed = failed.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ESTALE));
    Err(Error::os("open", &failed).with_path(path))
}

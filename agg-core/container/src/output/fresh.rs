//! Names that nobody can have made before.

use aggio_base::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};

/// A hidden name of 128 random bits.
///
/// # Errors
/// If the system has no random numbers.
pub fn fresh_name() -> Result<String> {
    let mut bytes = [0; 16];
    // SAFETY: the buffer has 16 bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        return Err(Error::os("getrandom", &io::Error::last_os_error()));
    }
    Ok(format!(".aggio-{:032x}", u128::from_le_bytes(bytes)))
}

/// Such a name in the directory of `path`.
///
/// # Errors
/// As [`fresh_name`].
pub fn fresh_beside(path: &Path) -> Result<PathBuf> {
    Ok(crate::output::parent_of(path).join(fresh_name()?))
}

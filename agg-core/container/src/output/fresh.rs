//! Names that nobody can have made before.

use crate::directory::random;
use aggio_base::Result;
use std::path::{Path, PathBuf};

/// A hidden name of 128 random bits.
///
/// # Errors
/// If the system has no random numbers.
pub fn fresh_name() -> Result<String> {
    Ok(format!(".aggio-{:016x}{:016x}", random()?, random()?))
}

/// Such a name in the directory of `path`.
///
/// # Errors
/// As [`fresh_name`].
pub fn fresh_beside(path: &Path) -> Result<PathBuf> {
    Ok(crate::output::parent_of(path).join(fresh_name()?))
}

//! Finds the `aggio` command that belongs to the library under test.

use std::path::PathBuf;

/// The `aggio` command beside the library under test.
///
/// `None` when it has not been built, which is a panic if the tests are required to run.
pub fn tool() -> Option<PathBuf> {
    let path = crate::library()?.with_file_name("aggio");
    if path.exists() {
        return Some(path);
    }
    crate::skip(&format!("{} has not been built (cargo build)", path.display()));
    None
}

//! Finds the library under test.

use std::path::PathBuf;

/// Whether a test that cannot run has failed (`AGGIO_TESTS=require`).
pub fn required() -> bool {
    std::env::var("AGGIO_TESTS").is_ok_and(|value| value == "require")
}

/// The `libaggio.so` under test: `AGGIO_LIBRARY`, or the release build of this workspace.
///
/// `None` when it has not been built, which is a panic if the tests are required to run.
pub fn library() -> Option<PathBuf> {
    let path = std::env::var_os("AGGIO_LIBRARY")
        .map_or_else(|| crate::target_directory().join("release/libaggio.so"), PathBuf::from);
    if path.exists() {
        return Some(path);
    }
    crate::skip(&format!("{} has not been built (cargo build --release)", path.display()));
    None
}

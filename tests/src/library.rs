//! Finds the library under test.

use std::path::PathBuf;

/// Whether a test that cannot run has failed (`AGGIO_TESTS=require`).
pub fn required() -> bool {
    std::env::var("AGGIO_TESTS").is_ok_and(|value| value == "require")
}

/// The `libaggio.so` under test: `AGGIO_LIBRARY`, or the newer one of those that `cargo build` made
/// with and without `--release`.
///
/// `None` when it has not been built, which is a panic if the tests are required to run.
pub fn library() -> Option<PathBuf> {
    let given = std::env::var_os("AGGIO_LIBRARY").map(PathBuf::from);
    let built = ["debug", "release"]
        .map(|profile| crate::target_directory().join(profile).join("libaggio.so"));
    let age = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let [debug, release] = built;
    let path = given.unwrap_or(if age(&debug) > age(&release) { debug } else { release });
    if path.exists() {
        return Some(path);
    }
    crate::skip(&format!("{} has not been built (cargo build)", path.display()));
    None
}

//! Programs that tests make.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Copies a program that others than its owner may run, too, by another process: children of other
/// tests would have a copy of our own open for writing until they become other programs, and nobody
/// could run it.
///
/// # Panics
/// If that fails.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().expect("cp starts");
    assert!(copied.success(), "{} cannot be copied to {}", from.display(), to.display());
    std::fs::set_permissions(to, PermissionsExt::from_mode(0o755)).expect("it is ours");
}

/// Makes a program of `text`, as [`copy_program`] does; the text stays beside it.
///
/// # Panics
/// If that fails.
pub fn write_program(text: &str, path: &Path) {
    let beside = path.with_extension("text");
    std::fs::write(&beside, text).expect("a text");
    copy_program(&beside, path);
}

//! The directory of these tests, the second user, and checks of a command's result.

use aggio_tests::Directory;
use aggio_tests::hosts::is_root;
use std::ffi::CString;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// The second user.
pub(crate) const OTHER: u32 = 65_534;

/// A directory for the files that a test makes.
pub(crate) struct Place(pub(crate) Directory);

impl Place {
    /// A new directory.
    pub(crate) fn new() -> Self {
        Place(Directory::new())
    }

    /// A directory in which everybody may make files, and a copy of the command that everybody may
    /// run; `None` where there is no second user.
    pub(crate) fn for_two() -> Option<Self> {
        if !is_root() {
            aggio_tests::skip("only root can be another user");
            return None;
        }
        let place = Self::new();
        aggio_tests::copy_program(
            env!("CARGO_BIN_EXE_aggio").as_ref(),
            place.path("aggio").as_ref(),
        );
        std::fs::set_permissions(place.0.path(), Permissions::from_mode(0o1777)).unwrap();
        Some(place)
    }

    /// The path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }

    /// Runs the command as the second user.
    pub(crate) fn by_other(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.path("aggio"));
        let output = command.args(arguments).current_dir("/").uid(OTHER).gid(OTHER).output();
        output.unwrap()
    }

    /// Gives a file to the second user, with a mode.
    pub(crate) fn give(&self, name: &str, mode: u32) {
        let path = self.path(name);
        std::os::unix::fs::chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    /// The names in the directory.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

/// The names in a directory, in order.
pub(crate) fn names(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Asserts that the command did its work silently.
pub(crate) fn done(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Asserts that the command failed and said so in these words.
pub(crate) fn refused(output: &Output, words: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains(words), "{words}: {output:?}");
}

/// Owner and mode.
pub(crate) fn rights(path: &str) -> (u32, u32) {
    let found = std::fs::symlink_metadata(path).unwrap();
    (found.uid(), found.mode() & 0o7777)
}

/// Makes a FIFO.
pub(crate) fn fifo(path: &str) {
    let path = CString::new(path).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

//! Whether a file may be given a name.

use crate::errors::{failed, refused};
use aggio_base::{ErrorClass, Result};
use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Fails unless the name `to` is free, or belongs to an ordinary file that may be replaced.
///
/// # Errors
/// `EEXIST` if something has it, which the error names unless it is an ordinary file.
pub fn require_vacant(to: &Path, replace: bool) -> Result<()> {
    let found = match to.symlink_metadata() {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("stat", &error, to)),
    };
    if !found.is_file() {
        let words = refusal(found, to);
        return Err(refused((ErrorClass::FileExists, libc::EEXIST), to, words));
    }
    if replace {
        return Ok(());
    }
    Err(failed("create", &io::Error::from_raw_os_error(libc::EEXIST), to))
}

fn refusal(found: FileType, to: &Path) -> String {
    if found.is_symlink() {
        let target = std::fs::read_link(to).unwrap_or_default();
        let target = target.display();
        return format!("it is a symbolic link to {target}, which is not replaced: name the file");
    }
    let kind = match found {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    format!("it is {kind}; only ordinary files are replaced")
}

//! Whether the library loads, and whether a program can be reached by it.

use super::Finding;
use crate::elf::{self, Reach};
use crate::library::NAME;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the library exists, cannot be replaced by other users, and loads.
pub(super) fn library(found: &Result<PathBuf, String>) -> Finding {
    let path = match found {
        Ok(path) => path,
        Err(why) => {
            return Finding::fail("library", why.as_str(), "make install, or --library FILE");
        }
    };
    if let Some(why) = unsafe_to_load(path) {
        return Finding::warn("library", why, "chmod go-w, or install it where only root writes");
    }
    let output = Command::new("/bin/true").env("LD_PRELOAD", path).env("AGGIO", "off").output();
    match output {
        Err(why) => Finding::fail("library", format!("/bin/true: {why}"), "install coreutils"),
        Ok(output) if !output.status.success() || !output.stderr.is_empty() => {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_string();
            Finding::fail("library", words, format!("build {NAME} for this system (make install)"))
        }
        Ok(_) => {
            let shown = path.display();
            let ran = format!("AGGIO=off LD_PRELOAD={shown} /bin/true");
            Finding::pass("library", ran, format!("{shown} loads"))
        }
    }
}

/// The reason why other users could replace the file; `None` if they cannot.
fn unsafe_to_load(path: &Path) -> Option<String> {
    for path in [path, path.parent()?] {
        let found = path.metadata().ok()?;
        // In a directory with the sticky bit, users can replace only their own files.
        let open = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
        if open {
            return Some(format!("{}: writable by others", path.display()));
        }
    }
    None
}

/// Whether preloading reaches a program, and an alternative if it does not.
pub(super) fn check(program: &str) -> Finding {
    let Some(path) = elf::find(program) else {
        let found = format!("{program}: not found");
        return Finding::fail("program", found, "give its path, or put it on the PATH");
    };
    let shown = path.display();
    let ran = format!("the ELF header and the mode of {shown} read");
    let mount = "aggio mount BACKEND MOUNT_POINT, and use the files below the mount point";
    match elf::reach(&path) {
        Err(why) => Finding::fail("program", format!("{shown}: {why}"), "make it readable"),
        Ok(Reach::Preload) => Finding::pass(
            "program",
            ran,
            format!("{shown}: dynamically linked, aggio run reaches it"),
        ),
        Ok(Reach::Other) => {
            Finding::pass("program", ran, format!("{shown}: a script; what it starts is reached"))
        }
        Ok(Reach::Static) => Finding::warn(
            "program",
            format!("{shown}: statically linked, preloading does not reach it"),
            mount,
        ),
        Ok(Reach::Go) => Finding::warn(
            "program",
            format!("{shown}: a Go program, which makes system calls without libc"),
            mount,
        ),
        Ok(Reach::Privileged) => Finding::warn(
            "program",
            format!("{shown}: set-user-id or set-group-id, preloading is ignored"),
            mount,
        ),
    }
}

//! File systems that can be full.

use crate::hosts::is_root;
use crate::{Directory, skip};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A file system in memory that only jobs see that are started with it; it vanishes with the value.
#[derive(Debug)]
pub struct SmallFileSystem {
    /// Keeps it mounted in a namespace of its own.
    holder: Child,
    directory: Directory,
}

impl SmallFileSystem {
    /// One of so many bytes, or `None` where nobody may mount one.
    ///
    /// # Panics
    ///
    /// If nobody may and the tests are required to run.
    pub fn mount_if_possible(bytes: u64) -> Option<Self> {
        let directory = Directory::new();
        let script = "mount -t tmpfs -o size=\"$2\" none \"$1\" && echo ready && exec cat";
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--propagation", "slave", "/bin/sh", "-c", script, "sh"]);
        command.arg(directory.path()).arg(bytes.to_string()).env_remove("LD_PRELOAD");
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut holder = spawned.expect("unshare starts");
        let output = holder.stdout.take().expect("its output is a pipe");
        let mut line = String::new();
        // If it ends, for any reason, there is nothing to read.
        let _ = BufReader::new(output).read_line(&mut line);
        let small = SmallFileSystem { holder, directory };
        if line.trim() == "ready" {
            return Some(small);
        }
        skip("no file system can be mounted here");
        None
    }

    /// Where its jobs see it.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where everybody else does.
    pub fn seen(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let inside = self.path().strip_prefix("/").expect("an absolute path");
        root.join(inside)
    }

    /// Bytes that are free.
    ///
    /// # Panics
    ///
    /// If the system does not report it.
    pub fn free(&self) -> u64 {
        let path = std::ffi::CString::new(self.seen().as_os_str().as_bytes()).expect("a path");
        // SAFETY: all-zero bytes are a valid `statvfs`, which is plain numbers.
        let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends with a zero byte and the buffer is a `statvfs`.
        let result = unsafe { libc::statvfs(path.as_ptr(), &mut facts) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        facts.f_bavail * facts.f_frsize
    }

    /// The words by which a program is started that sees it.
    pub(crate) fn starter(&self) -> Vec<OsString> {
        let mut words =
            vec!["nsenter".into(), "--target".into(), self.holder.id().to_string().into()];
        if !is_root() {
            words.extend(["--user".into(), "--preserve-credentials".into()]);
        }
        words.push("--mount".into());
        words
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // It ends by itself where this fails.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

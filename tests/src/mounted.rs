//! Directories that `aggio mount` shows.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A mount that ends with the input of its process.
#[derive(Debug)]
pub struct Mounted(Child);

impl Mounted {
    /// Shows `backing` at `point`, with these options and variables; `None` where that cannot be
    /// had, with the reason on standard error.
    ///
    /// # Panics
    ///
    /// If the command cannot be started.
    pub fn new(
        options: &[&str],
        backing: &Path,
        point: &Path,
        variables: &[(&str, &str)],
    ) -> Option<Self> {
        let aggio = crate::tool()?;
        let mut child = Command::new(aggio)
            .arg("mount")
            .args(options)
            .arg("--until-end-of-input")
            .args([backing, point])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("aggio starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it tells when it is ready");
        if line == "mounted\n" {
            return Some(Self(child));
        }
        child.wait().expect("it ends");
        crate::skip("FUSE cannot be mounted here (/dev/fuse, fuse3; tests/setup.sh check)");
        None
    }

    /// Unmounts; then all written bytes are in the backing directory.
    ///
    /// # Panics
    ///
    /// If the mount failed.
    pub fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("it ends").success(), "the mount failed");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Nothing can be done about a failure, and the test has failed already.
        let _ = self.0.wait();
    }
}

//! The slow file system, mounted for a test.

use aggio_tests::Directory;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mount below a directory of its own.
pub(crate) struct Mount {
    pub(crate) child: Child,
    directory: Directory,
}

impl Mount {
    /// `None`, with the reason, where FUSE is not to be had; a panic if the tests are required to
    /// run.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        let directory = Directory::new();
        let (backing, point) = (directory.path().join("backing"), directory.path().join("mount"));
        std::fs::create_dir(&backing).unwrap();
        std::fs::create_dir(&point).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_aggio-slowfs"))
            .args(["--latency-us", "100", "--until-end-of-input"])
            .args(options)
            .args([&backing, &point])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "mounted\n" {
            return Some(Mount { child, directory });
        }
        child.wait().unwrap();
        aggio_tests::skip("FUSE cannot be mounted here (/dev/fuse, fuse3; tests/setup.sh check)");
        None
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("mount").join(name)
    }

    pub(crate) fn backing(&self, name: &str) -> PathBuf {
        self.directory.path().join("backing").join(name)
    }

    /// The number of requests of a kind so far.
    pub(crate) fn count(&self, kind: &str) -> u64 {
        let text = std::fs::read_to_string(self.path(".requests")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{kind} ")));
        line.unwrap_or_else(|| panic!("no {kind} in {text}")).parse().unwrap()
    }

    /// Whether the process ends and the mount is gone.
    pub(crate) fn has_ended(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.try_wait().unwrap();
        status.is_some_and(|status| status.success()) && !is_mounted(&self.path(""))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !self.has_ended() && !std::thread::panicking() {
            panic!("the mount did not end");
        }
    }
}

/// Whether something is mounted there.
pub(crate) fn is_mounted(path: &Path) -> bool {
    let path = path.to_string_lossy();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(path.trim_end_matches('/')))
}

/// Bytes with values that depend on their position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

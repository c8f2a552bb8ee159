//! The file system, mounted for a test: unmounted even if the test fails, as its input ends with
//! the test's process.

#![allow(dead_code)]

use agg_core::blob::{Container, Create};
use aggio_tests::Directory;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A backing directory and where it is mounted.
pub(crate) struct Mount {
    pub(crate) child: Child,
    directory: std::sync::Arc<Directory>,
    point: PathBuf,
}

/// A directory with `backing` and `mount` in it.
pub(crate) fn directory() -> std::sync::Arc<Directory> {
    let directory = Directory::new();
    for name in ["backing", "mount"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    std::sync::Arc::new(directory)
}

pub(crate) fn aggio(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aggio")).args(arguments).output().unwrap()
}

impl Mount {
    /// `None`, with the reason, where FUSE is not to be had; a panic if the tests are required to
    /// run.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        Self::of(&directory(), options)
    }

    /// As [`Mount::start`], of a directory that has its files already.
    pub(crate) fn of(directory: &std::sync::Arc<Directory>, options: &[&str]) -> Option<Self> {
        let point = directory.path().join("mount");
        Self::at(directory, &point, options)
    }

    pub(crate) fn at(
        directory: &std::sync::Arc<Directory>,
        point: &Path,
        options: &[&str],
    ) -> Option<Self> {
        let backing = directory.path().join("backing");
        let log = directory.path().join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_aggio"))
            .args(["mount", "--until-end-of-input", "--log"])
            .arg(log)
            .args(options)
            .args([&backing, &point.to_path_buf()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "mounted\n" {
            let directory = std::sync::Arc::clone(directory);
            return Some(Mount { child, directory, point: point.into() });
        }
        child.wait().unwrap();
        aggio_tests::skip("FUSE cannot be mounted here (/dev/fuse, fuse3; tests/setup.sh check)");
        None
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.point.clone() } else { self.point.join(name) }
    }

    pub(crate) fn backing(&self, name: &str) -> PathBuf {
        self.directory.path().join("backing").join(name)
    }

    /// The messages of the file system.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Whether the process ends and the mount is gone.
    pub(crate) fn has_ended(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child.try_wait().unwrap().is_some() && !is_mounted(&self.point)
    }

    /// Unmounts; then the backing directory has all written bytes.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.has_ended(), "the mount did not end");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if self.has_ended() {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        aggio(&["umount", "-z", self.point.to_str().unwrap()]);
        if !std::thread::panicking() {
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

/// Until something holds that is bound to come.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes with values that depend on their position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// A sealed container with these bytes, written in pieces by two writers.
pub(crate) fn container(path: &Path, data: &[u8], piece: usize) {
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let container = Container::create(path, &how).unwrap();
    let writers = [container.writer().unwrap(), container.writer().unwrap()];
    for (index, bytes) in data.chunks(piece).enumerate() {
        writers[index % 2].write_at(bytes, (index * piece) as u64).unwrap();
    }
    for writer in writers {
        writer.close().unwrap();
    }
}

/// Random numbers that are the same in every run with the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound.max(1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.below(251) as usize;
        (0..len).map(|index| (index * 13 + seed) as u8 | 1).collect()
    }
}

/// The whole output of a command of the system.
pub(crate) fn output(program: &str, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("{program}: {why}"));
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(child.wait().unwrap().success(), "{program} {arguments:?}");
    bytes
}

//! The slow file system: mounted while it is measured, and always unmounted.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mount that ends with its value. If this program is killed, the file system sees the end of its
/// standard input and unmounts itself.
pub(crate) struct SlowMount {
    child: Child,
    directory: PathBuf,
    backing: PathBuf,
}

impl SlowMount {
    /// Mounts below `parent` and waits until the mount answers.
    pub(crate) fn start(program: &Path, parent: &Path, options: &str) -> Result<Self, String> {
        let (directory, backing) = (parent.join("mount"), parent.join("backing"));
        for path in [&directory, &backing] {
            std::fs::create_dir_all(path).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        let mut child = Command::new(program)
            .args(options.split_whitespace())
            .arg("--until-end-of-input")
            .args([&backing, &directory])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interruption from the keyboard is for this program, which then unmounts.
            .process_group(0)
            .spawn()
            .map_err(|why| format!("{}: {why}", program.display()))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            // An error leaves the line empty, which is reported below.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let mount = SlowMount { child, directory, backing };
        if line.trim() == "mounted" {
            Ok(mount)
        } else {
            Err("the slow file system could not be mounted (see above)".into())
        }
    }

    /// Where it is mounted.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file with the numbers of its requests.
    pub(crate) fn requests(&self) -> PathBuf {
        self.directory.join(".requests")
    }
}

impl Drop for SlowMount {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            eprintln!("aggio-bench: the slow file system does not end, it is detached");
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        }
        // Only if empty: nothing behind a mount that is still there may be removed.
        let _ = std::fs::remove_dir(&self.directory);
        let _ = std::fs::remove_dir_all(&self.backing);
    }
}

//! Groups of processes (cgroups) that may take little memory.

use crate::skip::not_here;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A group with a limit; the kernel kills a process of it that exceeds the limit. It vanishes with
/// the value.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// A group that may take so many bytes; `None`, aloud, where none may be made.
    pub fn new(bytes: u64) -> Option<Self> {
        let name = format!("aggio-test-{}-{bytes}", std::process::id());
        let versions =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let mut failure = String::new();
        for (root, limit) in versions {
            let group = Self(Path::new(root).join(&name));
            let made = std::fs::create_dir(&group.0)
                .and_then(|()| std::fs::write(group.0.join(limit), bytes.to_string()));
            match made {
                Ok(()) => return Some(group),
                Err(error) => failure = format!("{}: {error}", group.0.display()),
            }
        }
        not_here(&format!("no group with a limit of memory can be made: {failure}"));
        None
    }

    /// The command that starts a program in the group.
    pub(crate) fn starter(&self) -> Vec<OsString> {
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.0.join("cgroup.procs");
        vec!["sh".into(), "-c".into(), script.into(), processes.into()]
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its last processes may be about to end.
        let end = Instant::now() + Duration::from_secs(5);
        while self.0.exists() && std::fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

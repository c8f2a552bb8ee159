//! Waiting for launchers of MPI jobs, also for those that do not end by themselves.

use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// The time that a launcher may go on after all its processes have ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `end` for a launcher; `None` if it still runs then.
///
/// Open MPI's `mpirun` can wait for itself for ever in `PMIx_server_finalize` after a rank has
/// ended badly. So one that has had no process for a while is killed, and has not succeeded.
pub fn wait_for(launcher: &mut Child, end: Instant) -> Option<ExitStatus> {
    wait(launcher, end, PATIENCE)
}

fn wait(launcher: &mut Child, end: Instant, patience: Duration) -> Option<ExitStatus> {
    let mut busy = Instant::now();
    loop {
        if let Ok(Some(status)) = launcher.try_wait() {
            return Some(status);
        }
        if has_children(launcher.id()) {
            busy = Instant::now();
        }
        if busy.elapsed() > patience {
            let _ = launcher.kill();
            return launcher.wait().ok();
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process has children that have not ended; true if that cannot be determined.
fn has_children(process: u32) -> bool {
    let threads = PathBuf::from(format!("/proc/{process}/task"));
    let Ok(threads) = threads.read_dir() else { return true };
    let lists = threads.flatten().map(|thread| thread.path().join("children"));
    let mut children = lists.map(std::fs::read_to_string);
    children.any(|list| list.map_or(true, |list| list.split_whitespace().any(is_alive)))
}

/// Whether a process has not ended: a launcher that waits for itself does not collect those that
/// have.
fn is_alive(process: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = state.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start());
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    fn waited(script: &str, patience: u64) -> Option<ExitStatus> {
        let mut launcher = Command::new("sh").arg("-c").arg(script).spawn().unwrap();
        let end = Instant::now() + Duration::from_millis(600);
        let status = wait(&mut launcher, end, Duration::from_millis(patience));
        if status.is_none() {
            let _ = launcher.kill();
            let _ = launcher.wait();
        }
        status
    }

    #[test]
    fn a_launcher_is_killed_that_stays_without_a_process() {
        assert_eq!(waited("exec sleep 5", 200).and_then(|status| status.signal()), Some(9));
        assert_eq!(waited("sleep 0.7; exit 3", 200), None, "its process runs");
        let script = "sleep 0.01 & exec sleep 5";
        assert_eq!(waited(script, 200).and_then(|status| status.signal()), Some(9), "it has ended");
        assert_eq!(waited("exit 3", 200).and_then(|status| status.code()), Some(3));
    }
}

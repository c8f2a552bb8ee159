//! Finds and ends all processes of a job.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// The variable that marks every process of a job by its value, in any process group.
pub const MARK: &str = "AGGIO_TEST_JOB";

/// Lets the processes of a job that has ended go by themselves; gives how many did not.
pub(crate) fn await_marked(mark: &OsStr) -> usize {
    let needle = needle(mark);
    let end = Instant::now() + Duration::from_secs(3);
    loop {
        let alive = marked_processes(&needle).len();
        if alive == 0 || Instant::now() > end {
            return alive;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The entry in the environment of a job's processes.
fn needle(mark: &OsStr) -> Vec<u8> {
    let mut needle = format!("{MARK}=").into_bytes();
    needle.extend_from_slice(mark.as_encoded_bytes());
    needle
}

/// Kills every process that carries the mark of a job and waits up to ten seconds until all are
/// gone.
///
/// Launchers put ranks into process groups of their own, so killing a group is not enough.
pub fn kill_marked(mark: &OsStr) {
    let needle = needle(mark);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let alive = marked_processes(&needle);
        if alive.is_empty() || Instant::now() > end {
            return;
        }
        for id in alive {
            // SAFETY: kill takes two numbers and touches no memory of ours.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The state of each process of a job, a line each: for a report of one that does not end.
pub(crate) fn what_marked_do(mark: &OsStr) -> Vec<String> {
    let one = |id: libc::pid_t| {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{id}/{name}"));
        let words = |name: &str| read(name).unwrap_or_default().trim().replace(['\0', '\n'], " ");
        let state = read("status").unwrap_or_default();
        let state = state.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
        format!("{id} {} {} in {}: {}", words("comm"), state, words("wchan"), words("stack"))
    };
    marked_processes(&needle(mark)).into_iter().map(one).collect()
}

/// The processes that have `needle` in their environment; a dead process has none.
fn marked_processes(needle: &[u8]) -> Vec<libc::pid_t> {
    processes_with(&[needle])
}

/// The processes that have all of these in their environment, empty ones aside.
pub(crate) fn processes_with<T: AsRef<[u8]>>(needles: &[T]) -> Vec<libc::pid_t> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbered = processes.flatten().filter_map(|process| {
        let id: libc::pid_t = process.file_name().to_str()?.parse().ok()?;
        Some((id, std::fs::read(process.path().join("environ")).ok()?))
    });
    let has = |environment: &[u8], needle: &[u8]| {
        needle.is_empty() || environment.split(|byte| *byte == 0).any(|one| one == needle)
    };
    let all = |environment: &[u8]| needles.iter().all(|one| has(environment, one.as_ref()));
    numbered.filter(|(_, environment)| all(environment)).map(|(id, _)| id).collect()
}

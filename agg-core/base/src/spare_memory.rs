//! Memory that can be allocated before the kernel kills processes: of the machine, and of each
//! group of processes (cgroup) with a limit that this process belongs to.
//!
//! Pages of files that the kernel can drop count as free. An eighth of each amount is left for
//! others.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are taken before the kernel is asked again.
const STEP: u64 = 4 << 20;

/// Number of processes that may take a step before any of them checks again.
const PROCESSES: u64 = 64;

/// The text of a file of the kernel, if it is there.
type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The memory of a machine or of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount {
    limit: u64,
    free: u64,
}

/// Bytes that programs of the machine can still get; 0 if that is unknown.
pub fn available() -> u64 {
    machine(&read).map_or(0, |amount| amount.free)
}

/// Bytes that the machine and the groups of this process have; `None` if that is unknown.
pub fn limit() -> Option<u64> {
    amounts(&read).map(|amount| amount.limit).min()
}

/// Bytes that may be taken now.
fn spare() -> u64 {
    let spare = |amount: Amount| amount.free.saturating_sub(amount.limit / 8);
    amounts(&read).map(spare).min().unwrap_or(u64::MAX)
}

/// Memory of one process, allocated step by step.
#[derive(Debug)]
pub struct Allowance {
    /// Bytes that may be taken without a question.
    left: AtomicU64,
    spare: fn() -> u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: AtomicU64::new(0), spare }
    }
}

impl Allowance {
    /// Whether `bytes` of memory may be taken.
    pub fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return true;
        }
        let spare = (self.spare)();
        let step = (spare / PROCESSES).min(STEP);
        self.left.store(step.saturating_sub(bytes), Ordering::Relaxed);
        bytes <= spare
    }
}

fn read(name: &Path) -> Option<String> {
    std::fs::read_to_string(name).ok()
}

fn amounts<'a>(read: Read<'a>) -> impl Iterator<Item = Amount> + 'a {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let groups: Vec<Amount> = groups.lines().flat_map(|line| of_groups(line, read)).collect();
    machine(read).into_iter().chain(groups)
}

fn machine(read: Read<'_>) -> Option<Amount> {
    let text = read(Path::new("/proc/meminfo"))?;
    let kilobytes = |name| Some(field(&text, name)? << 10);
    Some(Amount { limit: kilobytes("MemTotal:")?, free: kilobytes("MemAvailable:")? })
}

/// The number that stands in a line of `text` after `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    line?.parse().ok()
}

/// The memory of the group that a line of `/proc/self/cgroup` names, and of those around it. In a
/// container its own group may be the outermost one, without a name.
fn of_groups(line: &str, read: Read<'_>) -> Vec<Amount> {
    let mut parts = line.splitn(3, ':');
    let (_, Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, amount): (_, fn(&Path, Read<'_>) -> Option<Amount>) = match controllers {
        "" => ("/sys/fs/cgroup", version_2),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", version_1)
        }
        _ => return Vec::new(),
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    groups.filter_map(|group| amount(&Path::new(root).join(group), read)).collect()
}

fn version_2(group: &Path, read: Read<'_>) -> Option<Amount> {
    let number = |name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    // A process that exceeds the lower one is slowed down, at the higher one killed.
    let limit = [number("memory.high"), number("memory.max")].into_iter().flatten().min()?;
    let used = number("memory.current")?;
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    Some(of_group(limit, used, ["inactive_file ", "active_file "].map(|name| field(&stat, name))))
}

fn version_1(group: &Path, read: Read<'_>) -> Option<Amount> {
    let number = |name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    let (limit, used) = (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?);
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    let names = ["total_inactive_file ", "total_active_file "];
    Some(of_group(limit, used, names.map(|name| field(&stat, name))))
}

fn of_group(limit: u64, used: u64, files: [Option<u64>; 2]) -> Amount {
    let files: u64 = files.into_iter().flatten().sum();
    Amount { limit, free: limit.saturating_sub(used.saturating_sub(files)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       8000 kB\nMemFree: 1 kB\nMemAvailable:   5000 kB\n";

    fn found(files: &[(&str, &str)]) -> Vec<Amount> {
        let read = |name: &Path| {
            let file = files.iter().find(|(path, _)| Path::new(path) == name)?;
            Some(file.1.to_owned())
        };
        amounts(&read).collect()
    }

    #[test]
    fn a_machine_has_what_it_can_give_without_swapping() {
        let machine = Amount { limit: 8000 << 10, free: 5000 << 10 };
        assert_eq!(found(&[("/proc/meminfo", MEMINFO)]), [machine]);
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[("/proc/meminfo", "MemTotal: many kB\n")]), []);
    }

    #[test]
    fn each_group_with_a_limit_around_the_process_counts_and_pages_of_files_are_free() {
        let job = [
            ("/proc/self/cgroup", "0::/slurm/job_7\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.high", "max\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.max", "1000\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.current", "900\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.stat", "anon 1\nactive_file 30\ninactive_file 5\n"),
            ("/sys/fs/cgroup/slurm/memory.high", "3000\n"),
            ("/sys/fs/cgroup/slurm/memory.max", "4000\n"),
            ("/sys/fs/cgroup/slurm/memory.current", "2000\n"),
        ];
        let groups = [Amount { limit: 1000, free: 135 }, Amount { limit: 3000, free: 1000 }];
        assert_eq!(found(&job), groups);
    }

    #[test]
    fn the_groups_of_the_first_version_are_found_by_their_controller() {
        let group = [
            ("/proc/self/cgroup", "5:cpuset:/a\n4:cpu,memory:/a\n1:name=systemd:/b\n0::/b\n"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n"),
            ("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "400\n"),
            ("/sys/fs/cgroup/memory/a/memory.stat", "active_file 9\ntotal_active_file 100\n"),
        ];
        assert_eq!(found(&group), [Amount { limit: 1000, free: 700 }]);
    }

    #[test]
    fn a_container_that_knows_no_name_of_its_group_has_the_outermost_one() {
        let container = [
            ("/proc/self/cgroup", "0::/docker/1a2b\n"),
            ("/sys/fs/cgroup/memory.max", "500\n"),
            ("/sys/fs/cgroup/memory.current", "100\n"),
        ];
        assert_eq!(found(&container), [Amount { limit: 500, free: 400 }]);
    }

    #[test]
    fn lines_that_are_none_and_numbers_that_are_none_count_as_nothing() {
        for text in ["", "0", "0::", "x:y", "4:memory:relative", "::::"] {
            assert_eq!(found(&[("/proc/self/cgroup", text)]), []);
        }
        let torn = [("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "12 34\n")];
        assert_eq!(found(&torn), []);
    }

    #[test]
    fn what_is_taken_in_steps_never_exceeds_what_is_spare() {
        let none = Allowance { left: AtomicU64::new(0), spare: || 0 };
        assert!(!none.take(1));
        let little = Allowance { left: AtomicU64::new(0), spare: || 6400 };
        assert!(little.take(6400) && !little.take(6401));
        assert!(little.take(60) && little.left.load(Ordering::Relaxed) == 40);
        let much = Allowance { left: AtomicU64::new(0), spare: || u64::MAX };
        assert!(much.take(STEP + 1) && much.left.load(Ordering::Relaxed) == 0);
        assert!(much.take(1) && much.left.load(Ordering::Relaxed) == STEP - 1);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(limit().is_some_and(|limit| limit > 1 << 20));
        assert!(Allowance::default().take(1));
    }
}

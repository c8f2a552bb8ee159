//! Shared memory that an MPI leaves when its processes are killed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const DIRECTORY: &str = "/dev/shm";
/// Names of the shared memory of Debian's MPIs.
const NAMES: [&str; 3] = ["mpich_shar_tmp", "vader_segment.", "ucx_shm_posix_"];

/// A process that makes shared memory has mapped it by then.
const MAPPED: Duration = Duration::from_secs(3);

/// Removes the shared memory of MPIs that was made since `started` by this user and that no process
/// has mapped: nothing else removes that of a killed job.
pub fn remove_left_since(started: SystemTime) {
    // Another test's job may just be making some.
    let is_new = |path: &Path| {
        let made = path.metadata().and_then(|facts| facts.modified());
        made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < MAPPED))
    };
    let mut left = unmapped_since(started);
    while left.iter().any(|path| is_new(path)) {
        std::thread::sleep(Duration::from_millis(100));
        left = unmapped_since(started).into_iter().filter(|path| left.contains(path)).collect();
    }
    for path in left {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(path);
    }
}

fn unmapped_since(started: SystemTime) -> Vec<PathBuf> {
    let mut made: Vec<PathBuf> = made_since(started).collect();
    if made.is_empty() {
        return made;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps: Vec<String> = processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok())
        .collect();
    let is_mapped = |path: &Path| maps.iter().any(|map| map.contains(&*path.to_string_lossy()));
    made.retain(|path| !is_mapped(path));
    made
}

fn made_since(started: SystemTime) -> impl Iterator<Item = PathBuf> {
    // SAFETY: it only returns a number.
    let user = unsafe { libc::geteuid() };
    let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let ours = entries.filter(move |entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_new = |facts: std::fs::Metadata| {
            facts.uid() == user && facts.modified().is_ok_and(|made| made >= started)
        };
        NAMES.iter().any(|start| name.starts_with(start)) && entry.metadata().is_ok_and(is_new)
    });
    ours.map(|entry| entry.path())
}

//! Shared memory that an MPI leaves when its processes are killed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const DIRECTORY: &str = "/dev/shm";
/// What Debian's MPIs call theirs.
const NAMES: [&str; 3] = ["mpich_shar_tmp", "vader_segment.", "ucx_shm_posix_"];

/// Removes the shared memory of MPIs that was made since `started` by this user and that no process
/// has mapped: of a job that was killed nobody else does.
pub fn remove_left_since(started: SystemTime) {
    let left: Vec<PathBuf> = made_since(started).collect();
    if left.is_empty() {
        return;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps: Vec<String> = processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok())
        .collect();
    let is_mapped = |path: &Path| maps.iter().any(|map| map.contains(&*path.to_string_lossy()));
    for path in left.iter().filter(|path| !is_mapped(path)) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(path);
    }
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

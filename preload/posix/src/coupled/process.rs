//! Coupled files across `fork`, `execve` and the end of the process.

use super::table::{self, TABLE};
use super::{agent, fork, listing, names};
use crate::errno;
use crate::next;
use crate::state::{self, Inside};
use agg_core::log;
use agg_core::log::Level;
use libc::c_int;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Prefix of the names of files that an agent has left for its successor.
const KEPT: &[u8] = b"bytes-";

/// Suffix that the kernel shows after the name of a deleted file.
const NAMELESS: &[u8] = b" (deleted)";

/// Prefixes of the names of unnamed coupled files, in memory and on disk.
const NAMES: [&[u8]; 2] = [b"memfd:aggio-couple", b"aggio-couple"];

/// When the library is loaded: registers inherited coupled files as opens of this process, so that
/// the agent notices its end.
pub fn attach() {
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let names = entries.flatten().map(|entry| entry.file_name());
    let numbers: Vec<c_int> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for fd in numbers.into_iter().filter(|fd| may_be_coupled(*fd)) {
        adopt(fd);
    }
}

/// Whether `fd` may be of a coupled file; the agent, or the process that it is from, decides.
fn may_be_coupled(fd: c_int) -> bool {
    let link = std::fs::read_link(Path::new(&format!("/proc/self/fd/{fd}")));
    link.is_ok_and(|name| is_of_coupled(name.as_os_str().as_bytes(), names::spill))
}

/// Whether `name`, as the kernel shows it, may be that of a coupled file. `spills` tells whether a
/// rule has a spill directory.
fn is_of_coupled(name: &[u8], spills: impl Fn() -> bool) -> bool {
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    let Some(last) = last.strip_suffix(NAMELESS) else {
        // Files of an earlier agent have names.
        return last.starts_with(KEPT) && spills();
    };
    // The kernel shows the inode number of a file that never had a name.
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    NAMES.iter().any(|start| last.starts_with(start))
        || last.strip_prefix(b"#").is_some_and(is_number) && spills()
}

/// Registers `fd` with the agent as an open of this process.
fn adopt(fd: c_int) {
    let Ok(client) = agent::client() else { return };
    // SAFETY: plain numbers.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, 0) };
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    match (client.adopt(fd), table::get(fd)) {
        (Ok(handle), Some(open)) => open.set_handle(handle),
        (Ok(handle), None) => {
            if table::add(fd, handle, writes).is_none() {
                // There is no room in the table: the kernel, not this library, reports its end.
                let _ = client.close(handle, u64::MAX);
            }
        }
        (Err(error), _) => log!(Level::Debug, "descriptor {fd} is not followed: {error}"),
    }
}

/// Before `fork`: waits until no thread is changing state that the child would copy half changed.
pub fn before_fork() {
    fork::begin();
    // The child shares the positions, so the next read of either process cannot be foreseen.
    super::complete_everything();
    if state::has_coupled() {
        // If another thread were initialising the connection, the child could never finish it.
        let _ = agent::client();
    }
    if let Some(guard) = listing::lock().lock() {
        TABLE.forks.store(true, Relaxed);
        fork::prepare();
        // Parent and child both release the lock.
        std::mem::forget(guard);
    }
}

/// After `fork`, on both sides.
pub fn after_fork() {
    if TABLE.forks.swap(false, Relaxed) {
        listing::lock().release();
    }
}

/// After `fork`, in the parent.
pub fn in_parent() {
    fork::wait();
}

/// In the parent, when `fork` has made a child.
pub fn has_forked() {
    fork::settle();
}

/// In the child after `fork`: registers the opens of the parent as those of the child, too.
pub fn in_child() {
    mpi_runs(false);
    if table::any() && !Inside::is() {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        let mut told = Vec::new();
        for (fd, open) in table::all() {
            // Duplicates share an open, which is registered once.
            if !told.contains(&open.handle()) {
                adopt(fd);
                told.push(open.handle());
            }
        }
    }
    fork::tell();
}

/// At the end of the process: completes the generations that it has open for writing.
pub fn at_exit() {
    if state::has_coupled() && !TABLE.dies.load(Relaxed) {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        if let Ok(client) = agent::client() {
            client.goodbye();
        }
    }
}

/// Before [`at_exit`], if the C library is about to write out its streams: their bytes belong to
/// the complete generations.
pub fn write_streams() {
    if table::any() {
        // SAFETY: null means all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
}

/// Records that MPI has started or ended. A process that ends in between, without `MPI_Finalize`,
/// has failed: MPI libraries call `exit` themselves when the launcher was killed.
pub fn mpi_runs(runs: bool) {
    TABLE.dies.store(runs, Relaxed);
}

/// Records that the process fails: the generations that it has open for writing are not complete.
pub fn died() {
    TABLE.dies.store(true, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coupled_files_are_told_by_the_names_that_the_kernel_shows() {
        let is_it = |name: &str, spills| is_of_coupled(name.as_bytes(), || spills);
        for name in ["/memfd:aggio-coupled", "/aggio-coupled", "/tmp/x/aggio-coupled-0af"] {
            assert!(is_it(&format!("{name} (deleted)"), false), "{name}");
            assert!(!is_it(name, true), "{name}");
        }
        assert!(is_it("/x/aggio-coupled-0-node-17/bytes-7", true));
        assert!(!is_it("/x/aggio-coupled-0-node-17/bytes-7", false));
        assert!(is_it("/scratch/#123 (deleted)", true));
        for name in ["/scratch/#123 (deleted)", "/x/other (deleted)", "pipe:[7]", ""] {
            assert!(!is_it(name, false), "{name}");
        }
        for name in ["/scratch/#12x (deleted)", "/scratch/# (deleted)", "/scratch/#123"] {
            assert!(!is_it(name, true), "{name}");
        }
    }
}

//! Children, other programs in this process, and its end.

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

/// How the names of files begin that an agent has left for another one.
const KEPT: &[u8] = b"bytes-";

/// What the kernel shows as the name of a file that has none.
const NAMELESS: &[u8] = b" (deleted)";

/// How the names of coupled files begin that have none: in memory, and elsewhere.
const NAMES: [&[u8]; 2] = [b"memfd:aggio-couple", b"aggio-couple"];

/// When the library is loaded: what this program has inherited of coupled files is its own, so
/// that the agent hears of its end.
pub fn attach() {
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let names = entries.flatten().map(|entry| entry.file_name());
    let numbers: Vec<c_int> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for fd in numbers.into_iter().filter(|fd| may_be_coupled(*fd)) {
        adopt(fd);
    }
}

/// Whether `fd` is of a file that only an agent, or whoever it is from, can tell.
fn may_be_coupled(fd: c_int) -> bool {
    let link = std::fs::read_link(Path::new(&format!("/proc/self/fd/{fd}")));
    link.is_ok_and(|name| is_of_coupled(name.as_os_str().as_bytes(), names::spill))
}

/// Whether a coupled file may have the name that the kernel shows; some rule `spills`.
fn is_of_coupled(name: &[u8], spills: impl Fn() -> bool) -> bool {
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    let Some(last) = last.strip_suffix(NAMELESS) else {
        // Those of an earlier agent have names.
        return last.starts_with(KEPT) && spills();
    };
    // A file that never had a name shows its number.
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    NAMES.iter().any(|start| last.starts_with(start))
        || last.strip_prefix(b"#").is_some_and(is_number) && spills()
}

/// Tells the agent that this process, too, has `fd` open.
fn adopt(fd: c_int) {
    let Ok(client) = agent::client() else { return };
    // SAFETY: plain numbers.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, 0) };
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    match (client.adopt(fd), table::get(fd)) {
        (Ok(handle), Some(open)) => open.set_handle(handle),
        (Ok(handle), None) => {
            if !table::add(fd, handle, writes) {
                // The kernel tells of its end, this library cannot.
                let _ = client.close(handle, u64::MAX);
            }
        }
        (Err(error), _) => log!(Level::Debug, "descriptor {fd} is not followed: {error}"),
    }
}

/// Before `fork`: nobody is in the middle of a change that the child would see half done.
pub fn before_fork() {
    fork::begin();
    // The child shares positions: the next read of either is not known.
    super::complete_everything();
    if state::has_coupled() {
        // What another thread is just making would never be made in the child.
        let _ = agent::client();
    }
    if let Some(guard) = listing::lock().lock() {
        TABLE.forks.store(true, Relaxed);
        fork::prepare();
        // Both sides give it back.
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

/// In a child after `fork`: it has open what its parent has, and may end in another way.
pub fn in_child() {
    mpi_runs(false);
    if table::any() && !Inside::is() {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        let mut told = Vec::new();
        for fd in table::all() {
            let handle = table::get(fd).map(|open| open.handle());
            // Duplicates share an open, which is told once.
            if !told.contains(&handle) {
                adopt(fd);
                told.push(table::get(fd).map(|open| open.handle()));
            }
        }
    }
    fork::tell();
}

/// At the end of the process: what it has open for writing is complete.
pub fn at_exit() {
    if state::has_coupled() && !TABLE.dies.load(Relaxed) {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        if let Ok(client) = agent::client() {
            client.goodbye();
        }
    }
}

/// Before [`at_exit`] where the C library is about to write its streams out: what is in them is
/// part of what is complete.
pub fn write_streams() {
    if table::any() {
        // SAFETY: null means all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
}

/// MPI has started, or ended. A process that ends in between without `MPI_Finalize` has failed:
/// MPI libraries call `exit` themselves when the launcher was killed.
pub fn mpi_runs(runs: bool) {
    TABLE.dies.store(runs, Relaxed);
}

/// The process gives up: what it has open for writing is not complete.
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

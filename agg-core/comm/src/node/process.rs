//! Whether a process of the node still runs.

use aggio_base::os;
use std::io;
use std::os::fd::AsRawFd;

/// Whether the process of this number has ended, or none has it.
///
/// A process that has ended keeps its number until its parent has asked for its exit status.
/// Launchers can leave that until all ranks have ended, and `kill` succeeds so long.
pub(crate) fn has_ended(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    if process == 0 {
        return false;
    }
    match os::open_process(process) {
        Ok(descriptor) => is_readable(&descriptor),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => true,
        // The kernel is older, a filter forbids the call, or there is no descriptor left.
        Err(_) => has_no_process(process),
    }
}

/// The descriptor of a process is readable from its end on.
fn is_readable(process: &impl AsRawFd) -> bool {
    let mut polled = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes the local entry.
    unsafe { libc::poll(&raw mut polled, 1, 0) == 1 }
}

fn has_no_process(process: libc::pid_t) -> bool {
    // SAFETY: signal 0 only asks whether the process exists.
    let found = unsafe { libc::kill(process, 0) } == 0;
    !found && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::has_ended;

    #[test]
    fn a_process_has_ended_before_its_parent_asks_for_its_status() {
        let mut child = std::process::Command::new("cat");
        child.stdin(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        assert!(!has_ended(child.id()));
        drop(child.stdin.take());
        let began = std::time::Instant::now();
        while !has_ended(child.id()) {
            assert!(
                began.elapsed().as_secs() < 20,
                "a process that has ended is taken for running"
            );
            std::thread::yield_now();
        }
        let number = child.id();
        child.wait().unwrap();
        assert!(has_ended(number));
    }

    #[test]
    fn a_place_that_no_process_has_entered_has_not_ended() {
        assert!(!has_ended(0));
        assert!(!has_ended(std::process::id()));
        assert!(has_ended(i32::MAX as u32));
    }
}

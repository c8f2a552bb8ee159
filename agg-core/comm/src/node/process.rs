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
    let found = unsafe { libc::poll(&raw mut polled, 1, 0) };
    // Another thread of the program may close descriptors that are not its own.
    found == 1 && polled.revents & libc::POLLIN != 0
}

fn has_no_process(process: libc::pid_t) -> bool {
    // SAFETY: signal 0 only asks whether the process exists.
    let found = unsafe { libc::kill(process, 0) } == 0;
    !found && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::{has_ended, is_readable};

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
    fn a_descriptor_that_the_program_closes_meanwhile_is_no_end() {
        struct Closed;
        impl std::os::fd::AsRawFd for Closed {
            fn as_raw_fd(&self) -> i32 {
                i32::MAX
            }
        }
        assert!(!is_readable(&Closed));
    }

    #[test]
    fn without_a_descriptor_to_spare_a_process_that_runs_has_not_ended() {
        // SAFETY: the calls only read and write the local numbers; the test is a process' own.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: as above; the child ends without looking back.
            unsafe {
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none);
                let lives = has_ended(libc::getppid().cast_unsigned());
                let is_gone = has_ended(i32::MAX as u32);
                libc::_exit(i32::from(lives || !is_gone));
            }
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
    }

    #[test]
    fn a_place_that_no_process_has_entered_has_not_ended() {
        assert!(!has_ended(0));
        assert!(!has_ended(std::process::id()));
        assert!(has_ended(i32::MAX as u32));
    }
}

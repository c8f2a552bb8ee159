//! Which client a request comes from.

/// The process of a thread. FUSE reports threads, and the threads of a process are one client.
pub(crate) fn of_thread(thread: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    process.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}

#[cfg(test)]
mod tests {
    use super::of_thread;

    #[test]
    fn threads_belong_to_their_process() {
        let me = std::process::id();
        assert_eq!(of_thread(me), me);
        // SAFETY: gettid has no arguments.
        let thread = std::thread::spawn(|| unsafe { libc::gettid() }.cast_unsigned());
        let other = std::thread::spawn(|| {
            // SAFETY: gettid has no arguments.
            let thread = unsafe { libc::gettid() }.cast_unsigned();
            (thread, of_thread(thread))
        });
        thread.join().unwrap();
        let (thread, process) = other.join().unwrap();
        assert_ne!(thread, me);
        assert_eq!(process, me);
        assert_eq!(of_thread(u32::MAX), u32::MAX);
    }
}

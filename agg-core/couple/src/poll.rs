//! Waiting for descriptors.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until one of these descriptors is readable, at most so long. All that are, by what they
/// tell of; negative ones never are.
///
/// # Errors
/// The system refuses to tell.
pub(crate) fn poll<T>(
    sources: impl Iterator<Item = (T, RawFd)>,
    timeout: Option<Duration>,
) -> io::Result<Vec<T>> {
    let watch = |(of, fd)| (of, libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let (all, mut polled): (Vec<T>, Vec<libc::pollfd>) = sources.map(watch).unzip();
    let millis = |left: Duration| i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
    let (count, timeout) = (polled.len() as libc::nfds_t, timeout.map_or(-1, millis));
    // SAFETY: the kernel reads and writes the entries of the local vector.
    if unsafe { libc::poll(polled.as_mut_ptr(), count, timeout) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let ready = all.into_iter().zip(polled).filter(|(_, polled)| polled.revents != 0);
    Ok(ready.map(|(of, _)| of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_readable_is_told_in_the_order_of_the_descriptors() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (silent, _writer) = std::io::pipe().unwrap();
        let (fd, other) = (reader.as_raw_fd(), silent.as_raw_fd());
        let sources = || [("a", fd), ("b", -1), ("c", other), ("d", fd)].into_iter();
        assert!(poll(sources(), Some(Duration::ZERO)).unwrap().is_empty());
        writer.write_all(b"x").unwrap();
        assert_eq!(poll(sources(), None).unwrap(), ["a", "d"]);
    }
}

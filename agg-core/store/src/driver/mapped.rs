//! Ranges of a file as memory: pieces are stored to it and loaded from it, and not a byte between
//! them is touched.
//!
//! The mapping is shared, so bytes that another process writes into the gaps meanwhile stay. Its
//! pages are allocated before anything is copied, and a page that vanishes during the copy
//! ([`sigbus`]) invalidates the copy instead of ending the process.

use super::{os, sigbus};
use aggio_base::Extent;
use std::io;
use std::os::fd::RawFd;

/// File systems with mappings that are coherent with reads and writes, and with allocated storage
/// that stays with its bytes (not so on file systems that copy on write).
const SUITABLE: &[&str] = &["ext4", "xfs", "tmpfs"];

/// The suitable ones that need no notification of a page's first change: a page that was mapped for
/// reading can be stored to.
const UNTOLD: &[&str] = &["tmpfs"];

/// The directions in which pages of the file may be mapped: none where transfers bypass the cache.
#[derive(Debug)]
pub(super) struct Mappable {
    pub(super) loads: bool,
    pub(super) stores: bool,
}

impl Mappable {
    /// The directions that a descriptor with this access mode allows.
    pub(super) fn with(access: i32) -> Self {
        Self { loads: access != libc::O_WRONLY, stores: access == libc::O_RDWR }
    }
}

/// Whether files of this file system may be mapped.
pub(super) fn is_suitable(file_system: &str) -> bool {
    SUITABLE.contains(&file_system)
}

/// Lets `copy` store into bytes `extent` of file `fd`, at the address of the first; whether all
/// that it stored is in the file. The file ends behind `extent` then, or further on.
///
/// # Errors
/// The system's error if the bytes cannot be mapped; `copy` was not run.
pub(super) fn store(
    fd: RawFd,
    file_system: &str,
    extent: Extent,
    copy: &mut dyn FnMut(*mut u8),
) -> io::Result<bool> {
    // Storage for all pages first, then the new end of the file: an attempt that fails here has
    // not made the file longer.
    os::fallocate(fd, extent, true)?;
    if size(&os::fstat(fd)?) < extent.end() {
        os::fallocate(fd, Extent::new(extent.end() - 1, 1), false)?;
    }
    let mapping = os::Mapping::new(fd, extent, true)?;
    mapping.populate(!UNTOLD.contains(&file_system))?;
    Ok(sigbus::guarded(mapping.addresses(), || copy(mapping.place(extent.offset))))
}

/// Lets `copy` load bytes `extent` of file `fd`, at the address of the first; whether all that it
/// loaded was the file's. Files that end before, or have holes, are left alone: getting their pages
/// would take memory for them.
///
/// # Errors
/// The system's error if the bytes cannot be mapped; `copy` was not run.
pub(super) fn load(fd: RawFd, extent: Extent, copy: &mut dyn FnMut(*mut u8)) -> io::Result<bool> {
    let stat = os::fstat(fd)?;
    let stored = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    if size(&stat) < extent.end() || stored < size(&stat) {
        return Ok(false);
    }
    let mapping = os::Mapping::new(fd, extent, false)?;
    mapping.populate(false)?;
    Ok(sigbus::guarded(mapping.addresses(), || copy(mapping.place(extent.offset))))
}

fn size(stat: &libc::stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scratch::Scratch;
    use std::os::fd::AsRawFd;

    fn file(scratch: &Scratch, content: &[u8]) -> std::fs::File {
        let path = scratch.file("f");
        std::fs::write(&path, content).unwrap();
        std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    /// Copies `data` to `start`.
    fn put(start: *mut u8, data: &[u8]) {
        // SAFETY: the tests store inside the range that they have asked for.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), start, data.len()) };
    }

    #[test]
    fn pieces_are_stored_and_the_bytes_between_them_keep_their_content() {
        let scratch = Scratch::new();
        let file = file(&scratch, &[9; 70_000]);
        let extent = Extent::new(50_001, 29_993);
        let stored = store(file.as_raw_fd(), "tmpfs", extent, &mut |start| {
            (0..3000).for_each(|n| put(start.wrapping_add(10 * n), &[1, 2, 3]));
        });
        assert!(stored.unwrap());
        let mut expected = vec![9; 70_000];
        expected.resize(extent.end() as usize, 0);
        for piece in expected[50_001..].chunks_mut(10) {
            piece[..3].copy_from_slice(&[1, 2, 3]);
        }
        assert!(std::fs::read(scratch.file("f")).unwrap() == expected);
    }

    #[test]
    fn threads_that_store_at_the_same_time_store_each_its_own_bytes() {
        let scratch = Scratch::new();
        let file = file(&scratch, b"");
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let file = &file;
                scope.spawn(move || {
                    let extent = Extent::new(5 * thread as u64, 19_985);
                    for _ in 0..50 {
                        let stored = store(file.as_raw_fd(), "ext4", extent, &mut |start| {
                            let data = [thread as u8 + 1; 5];
                            (0..1000).for_each(|n| put(start.wrapping_add(20 * n), &data));
                        });
                        assert!(stored.unwrap());
                    }
                });
            }
        });
        let content = std::fs::read(scratch.file("f")).unwrap();
        let expected = |at: usize| (at % 20 / 5) as u8 + 1;
        assert!(content.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
        assert_eq!(content.len(), 20_000);
    }

    #[test]
    fn a_file_that_is_cut_off_meanwhile_makes_the_copy_worthless_and_ends_nothing() {
        let scratch = Scratch::new();
        let file = file(&scratch, &[9; 1 << 20]);
        let extent = Extent::new(10, (1 << 20) - 10);
        let cut = |start: *mut u8| {
            file.set_len(100).unwrap();
            start.wrapping_add(1 << 19)
        };
        let stored = store(file.as_raw_fd(), "tmpfs", extent, &mut |start| put(cut(start), b"a"));
        assert!(!stored.unwrap());
        assert_eq!(std::fs::read(scratch.file("f")).unwrap(), [9; 100]);

        std::fs::write(scratch.file("f"), [9; 1 << 20]).unwrap();
        let loaded = load(file.as_raw_fd(), extent, &mut |start| {
            // SAFETY: a place in the range that was asked for.
            std::hint::black_box(unsafe { cut(start).read_volatile() });
        });
        assert!(!loaded.unwrap());
    }

    #[test]
    fn what_a_file_does_not_have_is_not_loaded() {
        let scratch = Scratch::new();
        let file = file(&scratch, &[7; 5000]);
        let mut seen = Vec::new();
        let mut load = |extent: Extent| {
            let copied = load(file.as_raw_fd(), extent, &mut |start| {
                // SAFETY: the range that was asked for.
                let bytes = unsafe { std::slice::from_raw_parts(start, extent.len as usize) };
                seen.extend_from_slice(bytes);
            });
            copied.unwrap()
        };
        assert!(load(Extent::new(4090, 910)));
        assert!(!load(Extent::new(4090, 911)), "the file ends before");
        file.set_len(1 << 20).unwrap();
        assert!(!load(Extent::new(4090, 910)), "the file has a hole");
        assert_eq!(seen, [7; 910]);
    }
}

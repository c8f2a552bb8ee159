//! Storing many small pieces at once, and not a byte between them.
//!
//! The pieces are stored into a shared mapping of the file, so that whatever another process
//! writes into the gaps meanwhile stays. The kernel does the storing, as a read from a nameless
//! memory file into the mapping: where a page cannot be had (full disk, file cut off by somebody)
//! that read ends early, while a store of our own would kill the process.

use super::descriptor::Descriptor;
use super::os;
use crate::Extent;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

/// File systems whose mappings are coherent with writes, and where allocated storage is kept for
/// the bytes it was allocated for (not so on file systems that copy on write).
const SUITABLE: &[&str] = &["ext4", "xfs", "tmpfs"];

/// The way of one open file.
#[derive(Debug)]
pub(super) struct Mapped {
    staging: Descriptor,
    /// One user of the memory file at a time.
    turn: Mutex<()>,
}

impl Mapped {
    /// `None` if the file system is not suitable or the system has no memory files.
    pub(super) fn new(file_system: &str) -> Option<Self> {
        if !SUITABLE.contains(&file_system) {
            return None;
        }
        let staging = Descriptor::new(os::memory_file(c"aggio-pieces").ok()?);
        Some(Self { staging, turn: Mutex::new(()) })
    }

    /// Stores `data` in `pieces` (ascending, disjoint, together as long as `data`) of file `fd`;
    /// returns how many bytes were stored.
    pub(super) fn store(&self, fd: RawFd, pieces: &[Extent], data: &[u8]) -> io::Result<usize> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(0) };
        let span = Extent::between(first.offset, last.end());
        // Storage for all pages first, and the new end of the file by its last byte: an attempt
        // that fails here has not made the file longer.
        os::fallocate(fd, span, true)?;
        let size = u64::try_from(os::fstat(fd)?.st_size).unwrap_or(0);
        if size < span.end() {
            let Some(end) = data.last() else { return Ok(0) };
            if os::pwrite(fd, std::slice::from_ref(end), span.end() - 1)? == 0 {
                return Ok(0);
            }
        }
        let staging = self.staging.get()?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut filled = 0;
        while filled < data.len() {
            filled += os::pwrite(staging, &data[filled..], filled as u64)?;
        }
        let mut mapping = os::Mapping::new(fd, span)?;
        let mut stored = 0;
        for batch in pieces.chunks(os::MAX_VECTORS) {
            let len: u64 = batch.iter().map(|piece| piece.len).sum();
            let n = mapping.fill(batch, staging, stored as u64)?;
            stored += n;
            if (n as u64) < len {
                break;
            }
        }
        Ok(stored)
    }

    /// Gives the memory file up.
    pub(super) fn close(&self) {
        let _ = self.staging.close();
    }
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

    #[test]
    fn pieces_are_stored_and_the_bytes_between_them_keep_their_content() {
        let scratch = Scratch::new();
        let file = file(&scratch, &[9; 70_000]);
        let Some(mapped) = Mapped::new("tmpfs") else { return };
        let pieces: Vec<Extent> = (0..3000).map(|n| Extent::new(50_000 + n * 10, 3)).collect();
        let data: Vec<u8> = (0..9000u32).map(|n| n as u8).collect();
        assert_eq!(mapped.store(file.as_raw_fd(), &pieces, &data).unwrap(), 9000);
        let mut expected = vec![9; 70_000];
        expected.resize(50_000 + 2999 * 10 + 3, 0);
        for (piece, data) in pieces.iter().zip(data.chunks(3)) {
            expected[piece.offset as usize..piece.end() as usize].copy_from_slice(data);
        }
        assert!(std::fs::read(scratch.file("f")).unwrap() == expected);
    }

    #[test]
    fn threads_that_store_at_the_same_time_store_each_its_own_bytes() {
        let scratch = Scratch::new();
        let file = file(&scratch, b"");
        let Some(mapped) = Mapped::new("tmpfs") else { return };
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (mapped, file) = (&mapped, &file);
                scope.spawn(move || {
                    let pieces: Vec<Extent> =
                        (0..1000).map(|n| Extent::new(20 * n + 5 * thread, 5)).collect();
                    for _ in 0..50 {
                        let data = [thread as u8 + 1; 5000];
                        assert_eq!(mapped.store(file.as_raw_fd(), &pieces, &data).unwrap(), 5000);
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
    fn a_page_that_cannot_be_had_ends_the_call_and_not_the_process() {
        let scratch = Scratch::new();
        let file = file(&scratch, &[9; 100]);
        let staging = Descriptor::new(os::memory_file(c"test").unwrap());
        os::pwrite(staging.get().unwrap(), &[1; 40], 0).unwrap();
        let mut mapping = os::Mapping::new(file.as_raw_fd(), Extent::new(0, 1 << 20)).unwrap();
        let pieces = [Extent::new(10, 20), Extent::new(900_000, 20)];
        assert_eq!(mapping.fill(&pieces, staging.get().unwrap(), 0).unwrap(), 20);
        assert!(mapping.fill(&pieces[1..], staging.get().unwrap(), 0).is_err());
        assert!(mapping.fill(&[Extent::new(1 << 20, 1)], staging.get().unwrap(), 0).is_err());
        let expected = [[9; 10].as_slice(), &[1; 20], &[9; 70]].concat();
        assert_eq!(std::fs::read(scratch.file("f")).unwrap(), expected);
    }
}

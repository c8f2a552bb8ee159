//! Transfers past the page cache (`O_DIRECT`), on request by the hints `direct_read` and
//! `direct_write`.
//!
//! The aligned middle of a request travels over a second descriptor, straight from the caller's
//! buffer where that is aligned too, else through one bounded aligned buffer. Heads and tails take
//! the ordinary way; the kernel keeps both views of the file coherent. Where the file system
//! refuses, the file silently keeps to the ordinary way and the facts say so.

use super::descriptor::Descriptor;
use super::os;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Alignment of offsets, lengths and addresses; enough for every block device in use.
const ALIGNMENT: usize = 4096;
/// Size of the aligned buffer.
const BOUNCE: usize = 1 << 20;

/// An aligned window in a zeroed allocation.
#[derive(Debug)]
struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    fn window(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; BOUNCE + ALIGNMENT];
        }
        let start = self.0.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        &mut self.0[start..start + BOUNCE]
    }
}

/// The uncached way to one file.
#[derive(Debug)]
pub(super) struct Direct {
    descriptor: Descriptor,
    bounce: Mutex<AlignedBuffer>,
    reads: AtomicBool,
    writes: AtomicBool,
}

impl Direct {
    /// Opens the file behind `fd` a second time; `None` if the file system cannot do it.
    pub(super) fn open(fd: RawFd, access: i32, reads: bool, writes: bool) -> Option<Self> {
        let descriptor = Descriptor::new(os::reopen(fd, access | libc::O_DIRECT).ok()?);
        Some(Self {
            descriptor,
            bounce: Mutex::new(AlignedBuffer(Vec::new())),
            reads: AtomicBool::new(reads),
            writes: AtomicBool::new(writes),
        })
    }

    /// Whether reads go past the page cache.
    pub(super) fn reads(&self) -> bool {
        self.reads.load(Relaxed)
    }

    /// Whether writes go past the page cache.
    pub(super) fn writes(&self) -> bool {
        self.writes.load(Relaxed)
    }

    /// Closes the second descriptor.
    pub(super) fn close(&self) -> io::Result<()> {
        self.descriptor.close()
    }

    /// One attempt to read past the cache; `None` if this range has to take the ordinary way.
    pub(super) fn pread(&self, buffer: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
        let len = aligned_len(offset, buffer.len()).filter(|_| self.reads())?;
        let fd = self.descriptor.get().ok()?;
        let result = if is_aligned(buffer.as_ptr()) {
            os::pread(fd, &mut buffer[..len], offset)
        } else {
            let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
            let len = len.min(BOUNCE);
            let window = &mut bounce.window()[..len];
            let result = os::pread(fd, window, offset);
            if let Ok(n) = result {
                buffer[..n].copy_from_slice(&window[..n]);
            }
            result
        };
        unless_refused(result, &self.reads)
    }

    /// One attempt to write past the cache; `None` if this range has to take the ordinary way.
    pub(super) fn pwrite(&self, buffer: &[u8], offset: u64) -> Option<io::Result<usize>> {
        let len = aligned_len(offset, buffer.len()).filter(|_| self.writes())?;
        let fd = self.descriptor.get().ok()?;
        let result = if is_aligned(buffer.as_ptr()) {
            os::pwrite(fd, &buffer[..len], offset)
        } else {
            let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
            let len = len.min(BOUNCE);
            let window = &mut bounce.window()[..len];
            window.copy_from_slice(&buffer[..len]);
            os::pwrite(fd, window, offset)
        };
        unless_refused(result, &self.writes)
    }

    /// How many bytes from `offset` on take the ordinary way, so that the next attempt is aligned.
    pub(super) fn head(offset: u64, len: usize) -> usize {
        let to_boundary = ALIGNMENT - (offset % ALIGNMENT as u64) as usize;
        if to_boundary < ALIGNMENT { len.min(to_boundary) } else { len.min(ALIGNMENT) }
    }
}

fn is_aligned(address: *const u8) -> bool {
    (address as usize).is_multiple_of(ALIGNMENT)
}

/// The largest aligned length, if there is one.
fn aligned_len(offset: u64, len: usize) -> Option<usize> {
    let len = len.min(super::generic::MAX_TRANSFER) / ALIGNMENT * ALIGNMENT;
    (offset.is_multiple_of(ALIGNMENT as u64) && len > 0).then_some(len)
}

/// `EINVAL` means that the device needs another alignment: switch off and take the ordinary way.
fn unless_refused(result: io::Result<usize>, in_force: &AtomicBool) -> Option<io::Result<usize>> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            in_force.store(false, Relaxed);
            None
        }
        result => Some(result),
    }
}

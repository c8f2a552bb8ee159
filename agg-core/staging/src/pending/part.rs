//! A part of memory that fills up and never moves.

use aggio_store::driver::sigbus::guarded;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// Memory of its own: zeros at first, allocated by the kernel when it is used; or the pages of a
/// file, which the kernel stores and fetches as it needs the memory.
#[derive(Debug)]
pub(super) struct Part {
    start: NonNull<u8>,
    len: usize,
    used: usize,
    /// Checksums of the filled bytes, if they are in a file: a page that could not be stored comes
    /// back with other bytes.
    checksums: Option<Vec<Stretch>>,
}

/// Bytes of a part with a checksum of their own, so that few are looked at for few.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: usize,
    end: usize,
    checksum: u32,
}

/// Bytes of a stretch that takes in no more.
const STRETCH: usize = 256 << 10;

// SAFETY: the memory belongs to the value alone.
unsafe impl Send for Part {}
// SAFETY: shared references only tell numbers.
unsafe impl Sync for Part {}

impl Part {
    /// A part of `len` bytes, in large pages where the kernel has them if it will surely be filled;
    /// `None` if there is no memory for it.
    pub(super) fn new(len: usize, in_large_pages: bool) -> Option<Self> {
        let part = Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, None).ok()?;
        if in_large_pages {
            // A kernel without them refuses, and the pages are small ones.
            part.advise(libc::MADV_HUGEPAGE);
        }
        Some(part)
    }

    /// A part that is the first `len` bytes of a file, which ends with the part if it has no name.
    pub(super) fn in_file(file: &OwnedFd, len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED, file.as_raw_fd(), Some(Vec::new()))
    }

    fn map(len: usize, flags: i32, fd: i32, checksums: Option<Vec<Stretch>>) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, used: 0, checksums })
    }

    /// Gives the kernel advice about the memory; a failure does not matter.
    fn advise(&self, advice: i32) {
        // SAFETY: it is the memory of this part, and no advice given here changes a byte of it.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, advice) };
    }

    /// Whether the bytes are in a file.
    pub(super) fn is_in_file(&self) -> bool {
        self.checksums.is_some()
    }

    /// Call when the bytes are not needed for a while: those of a file are not counted as memory of
    /// this process until then.
    pub(super) fn rest(&self) {
        if self.is_in_file() {
            self.advise(libc::MADV_DONTNEED);
        }
    }

    /// Whether the bytes at `places` are those that were put in.
    pub(super) fn is_sound(&self, places: Range<usize>) -> bool {
        let Some(stretches) = &self.checksums else { return true };
        let first = stretches.partition_point(|stretch| stretch.end <= places.start);
        let near = stretches[first..].iter().take_while(|stretch| stretch.start < places.end);
        let mut are_equal = true;
        let compare = || are_equal = near.copied().all(|stretch| self.has(stretch));
        guarded(self.range(), compare) && are_equal
    }

    fn has(&self, Stretch { start, end, checksum }: Stretch) -> bool {
        aggio_base::checksum::crc32c(&self.filled()[start..end]) == checksum
    }

    /// Puts the bytes into another part, which has room for them; whether they are those that were
    /// put in.
    pub(super) fn copy_to(&self, other: &mut Part) -> bool {
        let mut copied = false;
        let mut copy =
            || copied = other.fill(self.used, |room| room.copy_from_slice(self.filled()));
        let is_whole = guarded(self.range(), &mut copy);
        is_whole && copied && self.checksums.iter().flatten().all(|stretch| other.has(*stretch))
    }

    /// The bytes that were put in.
    fn filled(&self) -> &[u8] {
        // SAFETY: the range has been filled, and nobody changes it while there are references to
        // the part.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.used) }
    }

    /// The addresses of all pages.
    fn range(&self) -> Range<usize> {
        let start = self.start.as_ptr().expose_provenance();
        start..start + self.len
    }

    /// Bytes that have been filled.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Where the first byte is.
    pub(super) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Bytes that are left.
    pub(super) fn room(&self) -> usize {
        self.len - self.used
    }

    /// Lets `with` fill the next `len` bytes, for which there is room; whether they are there then.
    /// Pages of a file may be lost.
    pub(super) fn fill(&mut self, len: usize, with: impl FnOnce(&mut [u8])) -> bool {
        assert!(len <= self.room(), "a part has room for what is put into it");
        // SAFETY: the range is inside the memory, and nobody has a reference to these bytes yet.
        let room = unsafe {
            let place = self.start.as_ptr().add(self.used);
            std::slice::from_raw_parts_mut(place, len)
        };
        let (range, used) = (self.range(), self.used);
        match &mut self.checksums {
            None => with(room),
            Some(stretches) => {
                let goes_on = |last: &&Stretch| last.end - last.start < STRETCH;
                let last = stretches.last().filter(goes_on).copied();
                let mut stretch = last.unwrap_or(Stretch { start: used, end: used, checksum: 0 });
                let put = || {
                    with(&mut *room);
                    stretch.checksum = aggio_base::checksum::crc32c_append(stretch.checksum, room);
                };
                if !guarded(range, put) {
                    return false;
                }
                stretch.end += len;
                stretches.truncate(stretches.len() - usize::from(last.is_some()));
                stretches.push(stretch);
            }
        }
        self.used += len;
        true
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and its bytes are no longer used.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

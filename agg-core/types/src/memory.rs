//! The caller's buffer: base address, datatype, count.
//!
//! All raw access to users' memory goes through this file.

use crate::datatype::{Cursor, Datatype, Rows};

mod rows;
mod zero;

/// The caller's buffer. Data bytes are numbered in typemap order, `0 .. len`.
#[derive(Clone, Debug)]
pub struct Memory {
    base: *mut u8,
    datatype: Datatype,
    count: u64,
}

// SAFETY: the bytes are only accessed through methods, and the caller that made the value promised
// that they stay valid and untouched by others until the operation is over, on any thread.
unsafe impl Send for Memory {}
// SAFETY: as for Send; the rules of MPI forbid the caller to race with the operation.
unsafe impl Sync for Memory {}

impl Memory {
    /// The buffer of `count` copies of `datatype` at `base` (null for `MPI_BOTTOM`).
    ///
    /// # Safety
    ///
    /// As long as the value or a clone of it is used, all bytes that `count` copies of `datatype`
    /// at `base` describe must be readable, and writable if data is scattered into it; no other
    /// code may write to them, nor read them while data is scattered.
    #[inline]
    pub unsafe fn new(base: *mut u8, datatype: Datatype, count: u64) -> Self {
        Self { base, datatype, count }
    }

    /// A buffer without data.
    #[inline]
    pub fn nothing() -> Self {
        Self { base: std::ptr::null_mut(), datatype: Datatype::bytes(1), count: 0 }
    }

    /// Number of data bytes; saturates.
    #[inline]
    pub fn len(&self) -> u64 {
        self.datatype.size().saturating_mul(self.count)
    }

    /// Whether there is no data byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The datatype.
    #[inline]
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// Number of copies of the datatype.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the data is one run of bytes.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.datatype.is_contiguous() || (self.count == 1 && self.datatype.is_single_run())
    }

    /// The data, if it is one run of bytes.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        let (pointer, len) = self.single_run()?;
        // SAFETY: `new` promises that the bytes are readable and not written by others.
        Some(unsafe { std::slice::from_raw_parts(pointer, len) })
    }

    /// The data for writing, if it is one run of bytes.
    #[inline]
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        let (pointer, len) = self.single_run()?;
        // SAFETY: `new` promises that the bytes are writable and not used elsewhere. Clones of this
        // value are used for other parts or at other times.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
    }

    /// `len` data bytes from `position` on, if they are there and one run of bytes.
    #[inline]
    pub fn run_at(&self, position: u64, len: u64) -> Option<Memory> {
        let (start, run) = self.cursor(position).run()?;
        let fits = position.checked_add(len)? <= self.len() && len <= run as u64;
        fits.then(|| Self { base: start, datatype: Datatype::bytes(len), count: 1 })
    }

    /// Where the data starts, if it is one run of bytes, and how many bytes it has.
    #[inline]
    pub fn single_run(&self) -> Option<(*mut u8, usize)> {
        if self.is_empty() {
            return Some((std::ptr::NonNull::dangling().as_ptr(), 0));
        }
        let len = usize::try_from(self.len()).ok().filter(|_| self.is_contiguous())?;
        Some((address(self.base, self.datatype.first_displacement()), len))
    }

    /// Copies the data bytes from `position` on to `destination`; returns how many there were.
    #[inline]
    pub fn gather(&self, position: u64, destination: &mut [u8]) -> usize {
        self.cursor(position).gather(destination)
    }

    /// Copies `source` to the data bytes from `position` on; returns how many there were.
    #[inline]
    pub fn scatter(&self, position: u64, source: &[u8]) -> usize {
        self.cursor(position).scatter(source)
    }

    /// A cursor at data byte `position`.
    #[inline]
    pub fn cursor(&self, position: u64) -> MemoryCursor {
        MemoryCursor { base: self.base, cursor: self.datatype.cursor(self.count, position) }
    }
}

/// The address of the byte at `displacement`. Plain arithmetic, since `base` may be `MPI_BOTTOM`.
fn address(base: *mut u8, displacement: i64) -> *mut u8 {
    base.wrapping_offset(displacement as isize)
}

/// A place in the data of a [`Memory`], for copying pieces one after the other.
#[derive(Clone, Debug)]
pub struct MemoryCursor {
    base: *mut u8,
    cursor: Cursor,
}

// SAFETY: as for Memory; the promise given for it covers this cursor.
unsafe impl Send for MemoryCursor {}
// SAFETY: as for Send; shared references only read the cursor itself.
unsafe impl Sync for MemoryCursor {}

impl MemoryCursor {
    /// Number of data bytes before this place.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// The bytes from here to the next gap in memory; `None` at the end. For system calls that
    /// take addresses.
    #[inline]
    pub fn run(&self) -> Option<(*mut u8, usize)> {
        let (displacement, len) = self.cursor.run()?;
        Some((address(self.base, displacement), usize::try_from(len).unwrap_or(usize::MAX)))
    }

    /// Passes over `bytes` data bytes.
    #[inline]
    pub fn advance(&mut self, bytes: u64) {
        self.cursor.advance(bytes);
    }

    /// Goes to data byte `position`.
    #[inline]
    pub fn seek(&mut self, position: u64) {
        self.cursor.seek(position);
    }

    /// Copies data bytes to `destination` and passes over them; returns how many there were.
    pub fn gather(&mut self, destination: &mut [u8]) -> usize {
        let mut done = 0;
        while done < destination.len() {
            let rest = &mut destination[done..];
            if let Some(rows) = self.short_rows(rest.len()) {
                let (to, _) = rest.split_at_mut((rows.len * rows.count) as usize);
                // SAFETY: `Memory::new` promises that all runs are readable.
                unsafe { rows::gather(self.base, rows, to) };
                done += to.len();
                continue;
            }
            let Some((pointer, len)) = self.run() else { break };
            let len = len.min(rest.len());
            // SAFETY: `Memory::new` promises that the run is readable; `destination` is ours alone.
            unsafe { std::ptr::copy_nonoverlapping(pointer, rest.as_mut_ptr(), len) };
            self.advance(len as u64);
            done += len;
        }
        done
    }

    /// Copies `source` to data bytes and passes over them; returns how many there were.
    pub fn scatter(&mut self, source: &[u8]) -> usize {
        let mut done = 0;
        while done < source.len() {
            let rest = &source[done..];
            if let Some(rows) = self.short_rows(rest.len()) {
                let (from, _) = rest.split_at((rows.len * rows.count) as usize);
                // SAFETY: `Memory::new` promises that all runs are writable.
                unsafe { rows::scatter(self.base, rows, from) };
                done += from.len();
                continue;
            }
            let Some((pointer, len)) = self.run() else { break };
            let len = len.min(rest.len());
            // SAFETY: `Memory::new` promises that the run is writable; `source` does not lie in it.
            unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), pointer, len) };
            self.advance(len as u64);
            done += len;
        }
        done
    }

    /// The next regular runs, if they are so short that finding each costs more than copying it.
    fn short_rows(&mut self, most: usize) -> Option<Rows> {
        let (_, len) = self.cursor.run()?;
        if len > rows::LONGEST { None } else { self.cursor.take_rows(most as u64) }
    }
}

#[cfg(test)]
mod tests;

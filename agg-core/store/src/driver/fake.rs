//! A file in memory for unit tests: it records requests, and fails as a test chooses.

use super::latency::Meter;
use super::{Closing, Driver, Facts};
use aggio_base::{Extent, Result};
use std::io;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The content of a file, shared by all drivers that have it open.
#[derive(Debug, Default)]
pub struct FakeFile {
    bytes: Mutex<Vec<u8>>,
    /// Only the bytes from here on are kept; those before must not be accessed.
    base: u64,
    /// The size of a file that keeps no bytes.
    size: Option<u64>,
    stored: Mutex<Vec<Extent>>,
    closings: Mutex<Vec<Closing>>,
    /// Writes that are under way, and the most that ever were.
    writing: AtomicUsize,
    most_writing: AtomicUsize,
}

impl FakeFile {
    /// A file with these bytes.
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        Self::far(bytes, 0)
    }

    /// A file that holds `bytes` from byte `base` on.
    pub fn far(bytes: Vec<u8>, base: u64) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), base, ..Self::default() })
    }

    /// A file of `size` bytes that keeps none: reads leave the buffer as it is.
    pub fn hollow(size: u64) -> Arc<Self> {
        Arc::new(Self { size: Some(size), ..Self::default() })
    }

    /// The extents stored by writes so far, also if the file had the same bytes there; counted from
    /// the first byte that is kept.
    pub fn stored(&self) -> Vec<Extent> {
        locked(&self.stored).clone()
    }

    /// The bytes that are kept.
    pub fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        locked(&self.bytes)
    }

    /// How drivers closed the file so far.
    pub fn closings(&self) -> Vec<Closing> {
        locked(&self.closings).clone()
    }

    /// The most writes that were under way at a time.
    pub fn most_writing(&self) -> usize {
        self.most_writing.load(Ordering::SeqCst)
    }

    fn place(&self, offset: u64) -> usize {
        assert!(offset >= self.base, "an access at byte {offset}, before all data");
        (offset - self.base) as usize
    }

    fn size(&self) -> u64 {
        self.size.unwrap_or_else(|| self.base + self.bytes().len() as u64)
    }
}

/// One open of the file.
#[derive(Debug)]
pub struct FakeDriver {
    /// The file.
    pub file: Arc<FakeFile>,
    /// The answer of [`Driver::facts`].
    pub facts: Facts,
    /// The answer of [`Driver::meter`].
    pub meter: Option<Meter>,
    /// The answer of [`Driver::is_available`].
    pub available: bool,
    /// Attempts that succeed before one fails, and all after it; negative: none fails.
    pub good: AtomicI64,
    /// Offsets at which writes fail.
    pub refused: Vec<u64>,
    /// Most bytes of one attempt.
    pub most: usize,
    /// The time that a write takes.
    pub pause: Duration,
    /// The requests so far, see [`FakeDriver::requests`].
    pub log: Log,
}

/// A record of requests.
#[derive(Debug, Default)]
pub struct Log(Mutex<Vec<Extent>>);

impl FakeDriver {
    /// A driver without faults, of a file system in memory.
    pub fn new(file: &Arc<FakeFile>) -> Self {
        Self {
            file: Arc::clone(file),
            facts: Facts::of_bytes("memory"),
            meter: None,
            available: true,
            good: AtomicI64::new(-1),
            refused: Vec::new(),
            most: usize::MAX,
            pause: Duration::ZERO,
            log: Log::default(),
        }
    }

    /// An empty file on a file system of this name.
    pub fn on(file_system: &str) -> Self {
        Self { facts: Facts::of_bytes(file_system), ..Self::new(&FakeFile::new(Vec::new())) }
    }

    /// The requests so far: where, and how many bytes were asked for.
    pub fn requests(&self) -> Vec<Extent> {
        locked(&self.log.0).clone()
    }

    /// Records a request of `len` bytes, `possible` of which can be moved; those that are.
    fn attempt(&self, offset: u64, len: usize, possible: usize) -> io::Result<usize> {
        locked(&self.log.0).push(Extent::new(offset, len as u64));
        let left = self.good.load(Ordering::Relaxed);
        if left > 0 {
            self.good.store(left - 1, Ordering::Relaxed);
        }
        match left {
            0 => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => Ok(possible.min(self.most)),
        }
    }

    /// Waits as long as a write takes, among others that are under way.
    fn spend(&self) {
        let writing = self.file.writing.fetch_add(1, Ordering::SeqCst) + 1;
        self.file.most_writing.fetch_max(writing, Ordering::SeqCst);
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
        self.file.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Driver for FakeDriver {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(size) = self.file.size {
            let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
            return self.attempt(offset, buffer.len(), buffer.len().min(left));
        }
        let bytes = self.file.bytes();
        let rest = bytes.get(self.file.place(offset)..).unwrap_or_default();
        let n = self.attempt(offset, buffer.len(), buffer.len().min(rest.len()))?;
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        let n = self.attempt(offset, buffer.len(), buffer.len())?;
        self.spend();
        if self.refused.contains(&offset) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if self.file.size.is_some() {
            return Ok(n);
        }
        let start = self.file.place(offset);
        let mut bytes = self.file.bytes();
        let end = bytes.len().max(start + n);
        bytes.resize(end, 0);
        bytes[start..start + n].copy_from_slice(&buffer[..n]);
        locked(&self.file.stored).push(Extent::new(start as u64, n as u64));
        Ok(n)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.file.size())
    }

    fn set_size(&self, size: u64) -> Result<()> {
        if self.file.size.is_none() {
            self.file.bytes().resize(self.file.place(size), 0);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self, how: Closing) -> Result<()> {
        locked(&self.file.closings).push(how);
        Ok(())
    }

    fn is_available(&self) -> bool {
        self.available
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }
}

//! A file in memory that every rank opens, with faults of a rank's choice.

use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_store::driver::{Driver, Facts};
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file that keeps only the bytes from `base` on; those before must not be accessed.
#[derive(Debug, Default)]
pub(super) struct Disk {
    bytes: Mutex<Vec<u8>>,
    base: u64,
    /// Extents that writes stored, counted from `base`.
    stored: Mutex<Vec<Extent>>,
}

impl Disk {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Self::far(bytes, 0)
    }

    /// A file that holds `bytes` from byte `base` on.
    pub(super) fn far(bytes: Vec<u8>, base: u64) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), base, stored: Mutex::default() })
    }

    /// The extents stored by writes so far, also if the file had the same bytes there; counted from
    /// the first byte that is kept.
    pub(super) fn stored(&self) -> Vec<Extent> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, offset: u64) -> usize {
        assert!(offset >= self.base, "an access at byte {offset}, before all data");
        (offset - self.base) as usize
    }
}

/// A request: where, and how many bytes were asked for.
pub(super) type Seen = Extent;

/// One rank's access to the file.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) disk: Arc<Disk>,
    /// Attempts that succeed before one fails, and all after it; negative: none fails.
    pub(super) good: AtomicI64,
    /// Most bytes of one attempt.
    pub(super) most: usize,
    /// Whether the rank has the file.
    pub(super) available: bool,
    seen: Mutex<Vec<Seen>>,
}

impl Access {
    pub(super) fn new(disk: &Arc<Disk>) -> Self {
        Self {
            disk: Arc::clone(disk),
            good: AtomicI64::new(-1),
            most: usize::MAX,
            available: true,
            seen: Mutex::default(),
        }
    }

    /// The requests so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, offset: u64, len: usize) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Extent::new(offset, len as u64));
    }

    fn attempt(&self, len: usize) -> io::Result<usize> {
        let left = self.good.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if left > 0 {
            self.good.store(left - 1, Ordering::Relaxed);
        }
        Ok(len.min(self.most))
    }
}

impl Driver for Access {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.note(offset, buffer.len());
        let disk = self.disk.bytes();
        let rest = disk.get(self.disk.place(offset)..).unwrap_or_default();
        let n = self.attempt(buffer.len().min(rest.len()))?;
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.note(offset, buffer.len());
        let n = self.attempt(buffer.len())?;
        let mut disk = self.disk.bytes();
        let start = self.disk.place(offset);
        let end = start + n;
        if disk.len() < end {
            disk.resize(end, 0);
        }
        disk[start..end].copy_from_slice(&buffer[..n]);
        let mut stored = self.disk.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.push(Extent::new(start as u64, n as u64));
        Ok(n)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.disk.base + self.disk.bytes().len() as u64)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.disk.bytes().resize(self.disk.place(size), 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }

    fn is_available(&self) -> bool {
        self.available
    }

    fn facts(&self) -> Facts {
        facts(1)
    }
}

/// Facts of a file system in memory with blocks of this size.
pub(super) fn facts(block_size: u64) -> Facts {
    Facts {
        block_size,
        striping_unit: 0,
        striping_factor: 0,
        has_logs: false,
        is_staged: false,
        is_by_node: false,
        file_system: "memory".into(),
    }
}

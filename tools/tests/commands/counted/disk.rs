//! A file that counts requests and keeps nothing.

use agg_core::Result;
use agg_core::driver::{Closing, Driver, Facts};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The machine that such a file is on.
pub(crate) const MACHINE: [&str; 6] = [
    "--set",
    "block_size=4K",
    "--set",
    "request_latency=262144ns",
    "--set",
    "target_bandwidth=1000000000",
];

/// The file, as long as all ranks' data.
#[derive(Debug)]
pub(crate) struct Disk {
    size: u64,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Disk {
    pub(crate) fn new(size: u64) -> Arc<Self> {
        Arc::new(Self { size, reads: AtomicU64::new(0), writes: AtomicU64::new(0) })
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts { block_size: 4096, ..Facts::of_bytes("a network's") }
    }
}

/// One rank's access.
#[derive(Debug)]
pub(crate) struct Access(Arc<Disk>);

impl Access {
    pub(crate) fn new(disk: &Arc<Disk>) -> Self {
        Self(Arc::clone(disk))
    }
}

impl Driver for Access {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let left = usize::try_from(self.0.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        Ok(buffer.len().min(left))
    }

    fn pwrite(&self, buffer: &[u8], _: u64) -> io::Result<usize> {
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        Ok(buffer.len())
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.size)
    }

    fn set_size(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: Closing) -> Result<()> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        self.0.facts()
    }
}

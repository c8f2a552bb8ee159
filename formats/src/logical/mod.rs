//! A file that consists of several files, mostly a netCDF file: its bytes as if it were one.

mod cache;
mod describe;
mod read;
mod recast;
mod windows;
mod writers;

use crate::cdf::{Header, Layout, Records, Version};
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use cache::Cache;
pub use describe::{Coverage, Description, FileFacts};
pub use windows::Windows;
pub use writers::Written;
pub(crate) use writers::{Parts, Writers};

/// The content of elements that were never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// Zeros, as in the file that PnetCDF writes.
    #[default]
    Zero,
    /// The variable's `_FillValue`, or its type's.
    Fill,
}

/// How a set is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The content of elements that were never written.
    pub holes: Holes,
    /// Whether a set with missing files is read; their data is a hole.
    pub partial: bool,
    /// Where assembled parts of variables are kept.
    pub cache: Arc<Cache>,
    /// Files of the set that are open at a time.
    pub most_open: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            holes: Holes::Zero,
            partial: false,
            cache: Arc::new(Cache::new(256 << 20)),
            most_open: 64,
        }
    }
}

/// A variable, or its part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slab {
    /// The variable, by its position in the header.
    pub variable: usize,
    /// The record; zero for variables without records.
    pub record: u64,
}

/// Where the data of a logical file come from.
pub(crate) trait Source: Send + Sync {
    /// Writes every byte of `out`: the bytes of a slab from `start` on, in whole elements unless
    /// the slab is direct.
    fn fill(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()>;

    /// Whether parts of the variable cost no more than all of it, and may be had byte by byte.
    fn is_direct(&self, variable: usize) -> bool;

    /// Bytes of a slab that should be asked for at a time.
    fn tile(&self) -> u64;

    /// A description of its parts.
    fn describe(&self) -> Description;

    /// Whether its files have not changed since they were looked at.
    fn is_unchanged(&self) -> bool;

    /// The writers of its variables, if they are known.
    fn writers(&self) -> Option<Writers> {
        None
    }
}

/// A file that consists of others.
pub struct Logical {
    name: String,
    header: Header,
    head: Vec<u8>,
    layout: Layout,
    records: u64,
    /// Where the last variable of the last record ends.
    end: u64,
    size: u64,
    source: Box<dyn Source>,
    cache: Arc<Cache>,
    /// Its number in the cache.
    number: u64,
    is_netcdf: bool,
}

/// The number of the next file that is opened.
fn next_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

impl Logical {
    pub(crate) fn new(
        name: String,
        header: Header,
        records: u64,
        source: Box<dyn Source>,
        cache: &Arc<Cache>,
    ) -> Result<Self> {
        let told = |why: String| Error::corrupt(name.clone(), why);
        let head = header.write().map_err(|why| told(why.to_string()))?;
        let layout = Layout::of(&header).map_err(|why| told(why.to_string()))?;
        let end = layout.end(records).map_err(|why| told(why.to_string()))?;
        let (cache, number, size) = (Arc::clone(cache), next_number(), end);
        let is_netcdf = true;
        Ok(Logical {
            name,
            header,
            head,
            layout,
            records,
            end,
            size,
            source,
            cache,
            number,
            is_netcdf,
        })
    }

    /// A file of bytes without any structure: its header has no variables.
    pub(crate) fn of_bytes(
        name: String,
        size: u64,
        source: Box<dyn Source>,
        cache: &Arc<Cache>,
    ) -> Self {
        let header = Header {
            version: Version::Classic,
            records: Records::Known(0),
            dimensions: Vec::new(),
            attributes: Vec::new(),
            variables: Vec::new(),
        };
        Logical {
            name,
            header,
            head: Vec::new(),
            layout: Layout::of_bytes(size),
            records: 0,
            end: size,
            size,
            source,
            cache: Arc::clone(cache),
            number: next_number(),
            is_netcdf: false,
        }
    }

    /// Whether it is a netCDF classic file.
    #[must_use]
    pub fn is_netcdf(&self) -> bool {
        self.is_netcdf
    }

    /// The same, of so many bytes: data of its variables beyond that are left out, and bytes behind
    /// them are zeros.
    pub(crate) fn with_size(mut self, size: u64) -> Self {
        self.size = size;
        self
    }

    /// Its name as users see it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where its variables lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of its records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A description of its parts.
    #[must_use]
    pub fn describe(&self) -> Description {
        self.source.describe()
    }

    /// Whether no file has changed since it was looked at.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.source.is_unchanged()
    }

    /// Bytes of a slab, whole elements: `start` is the distance of the first from the beginning of
    /// the slab.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn read_slab(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        self.source.fill(slab, start, out)
    }

    /// Whether there is such a record, or the variable has none.
    fn has(&self, slab: Slab) -> bool {
        let records = self.layout.slots.get(slab.variable).is_some_and(|slot| slot.records);
        !records || slab.record < self.records
    }

    fn slab_size(&self, variable: usize) -> u64 {
        self.layout.slots.get(variable).map_or(0, |slot| slot.size)
    }

    /// The part of a slab that is assembled together with the byte at `at`.
    fn tile_around(&self, variable: usize, at: u64) -> Range<u64> {
        let element = self.layout.slots.get(variable).map_or(1, |slot| slot.element);
        let tile = (self.source.tile() / element).max(1) * element;
        let start = at / tile * tile;
        start..(start + tile).min(self.slab_size(variable))
    }
}

impl Drop for Logical {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}

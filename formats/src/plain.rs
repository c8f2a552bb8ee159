//! A netCDF file that is one file.

use crate::cdf::{Dialect, Layout};
use crate::e3sm::read_header;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::logical::{Cache, Description, FileFacts, Logical, Slab, Source};
use std::sync::Arc;

/// Bytes of a variable that are read at a time.
const TILE: u64 = 8 << 20;

struct Plain {
    files: Box<dyn Files>,
    layout: Layout,
    size: u64,
    records: u64,
}

/// The first of `files`, which is called `name`, if it begins as a netCDF classic file does.
///
/// # Errors
///
/// If it is none in spite of that, or cannot be read.
pub fn open(files: Box<dyn Files>, name: &str) -> Result<Option<Logical>> {
    let size = files.size(0)?;
    let mut magic = [0; 4];
    if size < 4 {
        return Ok(None);
    }
    files.read(0, &mut magic, 0)?;
    if !matches!(&magic, b"CDF\x01" | b"CDF\x02" | b"CDF\x05") {
        return Ok(None);
    }
    let header = read_header(&*files, 0, Dialect::default())?;
    let layout = Layout::of(&header).map_err(|why| Error::corrupt(name, why.to_string()))?;
    let records = layout.records(header.records, size);
    // Everything is had directly: nothing is kept.
    let cache = Arc::new(Cache::new(0));
    let source = Plain { files, layout, size, records };
    Logical::new(name.into(), header, records, Box::new(source), &cache).map(Some)
}

impl Source for Plain {
    /// Bytes behind the end of the file were never written.
    fn fill(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        let begin = self.layout.offset_of(slab.variable, slab.record);
        let from = begin.and_then(|begin| begin.checked_add(start));
        let from = from.ok_or_else(|| Error::corrupt(self.files.name(0), "too many records"))?;
        let there = usize::try_from(self.size.saturating_sub(from)).unwrap_or(usize::MAX);
        let (data, rest) = out.split_at_mut(there.min(out.len()));
        rest.fill(0);
        if data.is_empty() { Ok(()) } else { self.files.read(0, data, from) }
    }

    fn is_direct(&self, _: usize) -> bool {
        true
    }

    fn tile(&self) -> u64 {
        TILE
    }

    fn is_unchanged(&self) -> bool {
        self.files.is_unchanged()
    }

    fn describe(&self) -> Description {
        let file = FileFacts {
            name: self.files.name(0),
            size: self.size,
            blobs: 0,
            records: self.records,
        };
        Description { kind: "netCDF", files: vec![file], ..Description::default() }
    }
}

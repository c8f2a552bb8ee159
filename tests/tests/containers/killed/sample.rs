//! A netCDF file that three ranks have written.

use agg_core::blob::{Create, ReadOnlyFile, Take, Turn, unfold};
use agg_core::{Extent, Result};
use aggio_formats::cdf::{Alignment, Dimension, Header, Layout, Records, Type, Variable, Version};
use aggio_tests::Directory;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// How many ranks.
pub(crate) const RANKS: u64 = 3;

/// A netCDF file with so many records; three ranks have written each variable, a third each.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    /// The header, and each variable, of one record if it has records.
    parts: Vec<Range<u64>>,
}

impl Sample {
    /// All data have this `seed`.
    pub(crate) fn new(records: u64, seed: u8) -> Self {
        let dimension = |name: &str, length| Dimension { name: name.into(), length };
        let variable = |name: &str, dimensions: &[usize], kind| Variable {
            name: name.into(),
            dimensions: dimensions.to_vec(),
            attributes: Vec::new(),
            kind,
            told_size: 0,
            begin: 0,
        };
        let mut header = Header {
            version: Version::Data64,
            records: Records::Known(records),
            dimensions: vec![dimension("time", 0), dimension("x", 12)],
            attributes: Vec::new(),
            variables: vec![
                variable("area", &[1], Type::Double),
                variable("heat", &[0, 1], Type::Int),
            ],
        };
        header.assign(Alignment::default()).expect("it is small");
        let layout = Layout::of(&header).expect("it is a good header");
        let mut bytes = header.write().expect("a header");
        let mut parts = Vec::new();
        parts.push(0..bytes.len() as u64);
        let places = std::iter::once((0, 0)).chain((0..records).map(|record| (1, record)));
        for (variable, record) in places {
            let size = layout.slots[variable].size;
            let start = header.variables[variable].begin + record * size;
            bytes.resize(start as usize, 0);
            bytes.extend((0..size).map(|at| seed ^ (start + at) as u8 | 1));
            parts.push(start..start + size);
        }
        Sample { bytes, parts }
    }

    /// Where its last record begins.
    pub(crate) fn last(&self) -> usize {
        self.parts.last().map_or(0, |part| part.start as usize)
    }

    /// Makes it a container with the log of each rank.
    pub(crate) fn store(&self, path: &Path) {
        let lock = Directory::new();
        let lock = lock.path().join("lock");
        fs::write(&lock, "").expect("a file");
        let turn = Turn::take(&lock).expect("a lock").expect("it stays");
        let how = Create { mode: 0o644, exclusive: true, data_crc: true };
        unfold(path, self, &how, &turn).expect("a container");
    }
}

impl ReadOnlyFile for Sample {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let rest = &self.bytes[offset as usize..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn owned(&self, take: &mut Take<'_>) -> Result<()> {
        take(Extent::between(0, self.parts[0].end), 0)?;
        for part in &self.parts[1..] {
            let share = (part.end - part.start) / RANKS;
            for rank in 0..RANKS {
                take(Extent::new(part.start + rank * share, share), rank as u32)?;
            }
        }
        Ok(())
    }
}

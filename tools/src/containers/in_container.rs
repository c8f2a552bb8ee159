//! The file in a container, as a netCDF file and as the source of a set.

use super::at;
use agg_core::Extent;
use agg_core::blob::{Container, Reader, Verify};
use aggio_formats::blobs::{Content, Owned};
use aggio_formats::files::Files;
use aggio_formats::{Error, Kind, Logical, Result, plain};
use std::ffi::OsStr;
use std::path::Path;

/// Bytes of the file for which the writers are looked up at a time.
const WINDOW: u64 = 8 << 20;

/// A container as the only file of a list.
pub(super) struct InContainer {
    name: String,
    reader: Reader,
    /// The permissions of the file.
    pub(super) mode: u32,
    /// The ids of its logs, sorted.
    pub(super) logs: Vec<u64>,
}

/// The id of a log of this name.
fn id_of(name: &OsStr) -> Option<u64> {
    u64::from_str_radix(name.to_str()?.strip_suffix(".log")?, 16).ok()
}

impl InContainer {
    pub(super) fn open(path: &Path) -> std::result::Result<Self, String> {
        let container = Container::open(path).map_err(|why| at(path, why))?;
        let reader = container.reader().and_then(|reader| reader.verifying(Verify::Always));
        let reader = reader.map_err(|why| at(path, why))?;
        let mode = container.attributes().map_err(|why| at(path, why))?.mode & 0o777;
        let mut logs = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|why| at(path, why))? {
            logs.extend(id_of(&entry.map_err(|why| at(path, why))?.file_name()));
        }
        logs.sort_unstable();
        Ok(InContainer { name: path.display().to_string(), reader, mode, logs })
    }

    /// The content of the netCDF file in it; `None` if it is no such file.
    pub(super) fn into_netcdf(self) -> std::result::Result<Option<Logical>, String> {
        let name = self.name.clone();
        plain::open(Box::new(self), &name).map_err(|why| why.to_string())
    }

    fn told(&self, why: &agg_core::Error) -> Error {
        let kind = Kind::System(why.errno());
        Error { file: self.name.clone(), kind, what: why.to_string() }
    }

    /// The parts of the file in the logs, in file order; a writer is a log by its place among all.
    pub(super) fn owned(&self) -> impl Iterator<Item = Result<Owned>> {
        let (size, mut place) = (self.reader.size(), 0);
        let windows = std::iter::from_fn(move || {
            let start = match self.reader.data_from(place) {
                Ok(start) if start >= size => return None,
                Ok(start) => start,
                Err(why) => {
                    place = size;
                    return Some(Err(self.told(&why)));
                }
            };
            place = start.saturating_add(WINDOW);
            Some(self.owned_from(start))
        });
        windows.flat_map(|owned| match owned {
            Ok(owned) => owned.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(why) => vec![Err(why)],
        })
    }

    fn owned_from(&self, start: u64) -> Result<Vec<Owned>> {
        let segments = self.reader.segments(Extent::new(start, WINDOW));
        let mut owned = Vec::new();
        for segment in segments.map_err(|why| self.told(&why))? {
            let Some((log, _)) = segment.source else { continue };
            let Ok(writer) = self.logs.binary_search(&log) else {
                let what = format!("log {log:016x} appeared meanwhile");
                return Err(Error { file: self.name.clone(), kind: Kind::Mismatch, what });
            };
            let range = segment.logical.offset..segment.logical.end();
            // Nobody has that many logs.
            owned.push(Owned { range, writer: writer as u32 });
        }
        Ok(owned)
    }
}

impl Files for InContainer {
    fn name(&self, _: usize) -> String {
        self.name.clone()
    }

    fn size(&self, _: usize) -> Result<u64> {
        Ok(self.reader.size())
    }

    fn read(&self, _: usize, buffer: &mut [u8], offset: u64) -> Result<()> {
        let count = self.reader.read_at(buffer, offset).map_err(|why| self.told(&why))?;
        if count == buffer.len() {
            return Ok(());
        }
        let what = format!("ends before byte {offset}");
        Err(Error { file: self.name.clone(), kind: Kind::Truncated, what })
    }
}

impl Content for InContainer {
    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        self.read(0, out, offset)
    }
}

//! Containers that become blobs of E3SM-IO, for the engine.

use crate::blobs::{self, Content, Kind, Outcome, Owned, Plan, Sink, Store, Stored};
use crate::error::{Error as FormatError, Kind as Wrong};
use crate::{EIO, files::Folder, set};
use agg_core::blob::{Layout, Reader, Recast, Recaster, Segment};
use agg_core::{Error, ErrorClass, Extent, Result};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the file to look up the writers of at a time.
const WINDOW: u64 = 64 << 20;

/// The layouts of E3SM-IO, for [`agg_core::Engine::with_recaster`].
pub struct E3sm;

impl Recaster for E3sm {
    fn file_name(&self, set: &str, part: usize) -> String {
        blobs::file_name(set, part)
    }

    fn is_part(&self, path: &Path) -> bool {
        Folder::of(path).is_some_and(|(folder, name)| set::is_blob(&folder, &name))
    }

    fn write(
        &self,
        recast: &Recast,
        reader: &Reader,
        part: usize,
        to: &File,
    ) -> Result<Option<String>> {
        let kind = match recast.layout {
            Layout::E3smHdf5 => Kind::Hdf5,
            Layout::E3sm | Layout::Container => Kind::Pnetcdf,
        };
        let content = Whole(reader);
        let mut owned = Writers::new(reader, recast);
        match Plan::of(&content, &mut owned, &recast.groups, kind).map_err(failed)? {
            Outcome::Unsuited(why) => Ok(Some(why)),
            Outcome::Plan(plan) => {
                plan.write(part, &content, &Target(to)).map(|()| None).map_err(failed)
            }
        }
    }
}

fn failed(error: FormatError) -> Error {
    match error.errno() {
        0 => Error::new(ErrorClass::Io, error.to_string()).with_errno(EIO),
        errno => Error::os(&error.to_string(), &std::io::Error::from_raw_os_error(errno)),
    }
}

fn told(error: &Error) -> FormatError {
    FormatError {
        file: "the container".into(),
        kind: Wrong::System(error.errno()),
        what: error.to_string(),
    }
}

/// The bytes of a container.
struct Whole<'a>(&'a Reader);

impl Content for Whole<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> crate::Result<()> {
        match self.0.read_at(out, offset) {
            Ok(len) if len == out.len() => Ok(()),
            Ok(_) => {
                let what = format!("it ends before byte {}", offset + out.len() as u64);
                Err(FormatError { file: "the container".into(), kind: Wrong::Truncated, what })
            }
            Err(error) => Err(told(&error)),
        }
    }

    fn store(&self) -> Option<&dyn Store> {
        Some(self)
    }
}

impl Store for Whole<'_> {
    fn find(&self, range: Range<u64>) -> crate::Result<Vec<Stored>> {
        let extent = Extent::new(range.start, range.end - range.start);
        let stored = |segment: Segment| {
            let (store, place) = segment.source?;
            let range = segment.logical.offset..segment.logical.end();
            Some(Stored { range, store, place })
        };
        let found = self.0.segments(extent).map_err(|error| told(&error))?;
        Ok(found.into_iter().filter_map(stored).collect())
    }

    fn copy(&self, bytes: Stored, to: &File, offset: u64) -> crate::Result<()> {
        let Stored { range, store, place } = bytes;
        let logical = Extent::new(range.start, range.end - range.start);
        let segment = Segment { logical, source: Some((store, place)) };
        self.0.copy(segment, to, offset).map_err(|error| told(&error))
    }
}

/// Which rank wrote which bytes, from the first to the last.
struct Writers<'a> {
    reader: &'a Reader,
    ranks: HashMap<u64, u32>,
    next: u64,
    found: VecDeque<Owned>,
}

impl<'a> Writers<'a> {
    /// Bytes of a set that was opened again are in logs that have the numbers of its blobs, from
    /// one on: those of the ranks that are in their places now.
    fn new(reader: &'a Reader, recast: &Recast) -> Self {
        let before = (1..).zip(recast.groups.iter().flatten().copied());
        let now = recast.logs.iter().copied().zip(0..).filter(|(log, _)| *log != 0);
        let ranks = before.chain(now).collect();
        Writers { reader, ranks, next: 0, found: VecDeque::new() }
    }

    fn look(&mut self) -> Result<()> {
        self.next = self.reader.data_from(self.next)?;
        let window = Extent::new(self.next, WINDOW.min(self.reader.size() - self.next));
        for segment in self.reader.segments(window)? {
            let Some((log, _)) = segment.source else { continue };
            let writer = self.ranks.get(&log).copied().unwrap_or(0);
            let range = segment.logical.offset..segment.logical.end();
            self.found.push_back(Owned { range, writer });
        }
        self.next = window.end();
        Ok(())
    }
}

impl Iterator for Writers<'_> {
    type Item = crate::Result<Owned>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() && self.next < self.reader.size() {
            if let Err(error) = self.look() {
                self.next = self.reader.size();
                return Some(Err(told(&error)));
            }
        }
        self.found.pop_front().map(Ok)
    }
}

/// A file of the set.
struct Target<'a>(&'a File);

impl Target<'_> {
    fn told(&self, call: &str, error: &std::io::Error) -> FormatError {
        let kind = Wrong::System(error.raw_os_error().unwrap_or(EIO));
        FormatError { file: "a blob".into(), kind, what: call.into() }
    }
}

impl Sink for Target<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> crate::Result<()> {
        self.0.write_all_at(bytes, offset).map_err(|error| self.told("write", &error))
    }

    fn set_len(&self, size: u64) -> crate::Result<()> {
        self.0.set_len(size).map_err(|error| self.told("ftruncate", &error))
    }

    fn file(&self) -> Option<&File> {
        Some(self.0)
    }
}

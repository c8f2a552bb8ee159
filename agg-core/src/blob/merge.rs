//! A container becomes an ordinary file: several threads copy windows. A copy that is interrupted
//! leaves nothing, or goes on where it was if that is wanted (`journal.rs`).

mod journal;
mod windows;

use super::check::{Check, check};
use super::container::Container;
use super::read::Reader;
use super::verify::Verify;
use super::{damaged, failed, holes};
use crate::output::{Output, Source, Unfinished, require_vacant};
use crate::{Extent, Result};
use journal::Journal;
use std::fs::FileTimes;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use windows::each_window;

/// How a container is merged.
#[derive(Clone, Copy)]
pub struct Merge<'a> {
    /// Threads that copy; 0 for as many as there are cores.
    pub threads: usize,
    /// Whether all checksums are checked before, and the copy is compared with the container after.
    pub verify: bool,
    /// Whether a file that has the name already is replaced.
    pub replace: bool,
    /// Whether a copy that was interrupted goes on, and this one is kept beside `to` if it is.
    pub resume: bool,
    /// Called now and then with the bytes done and their total.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Where the hidden name is noted that the file may have meanwhile.
    pub unfinished: &'a Unfinished,
}

/// What merging did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of it that an interrupted run had copied before.
    pub resumed: u64,
}

/// Merges the container `from` to the ordinary file `to`, which appears when it is complete.
///
/// # Errors
///
/// If the container is damaged, changes meanwhile, or the file cannot be written; if something
/// other than an ordinary file has its name. Then nothing is left, but what the next run with
/// `resume` goes on with if this one had it, too.
pub fn merge(from: &Path, to: &Path, how: &Merge<'_>) -> Result<Merged> {
    if how.verify {
        refuse_damage(from)?;
    }
    require_vacant(to, how.replace)?;
    let container = Container::open(from)?;
    let reader = container.reader()?.verifying(Verify::Always)?;
    let partial = Partial::open(&container, &reader, to, how)?;
    let copied = copy(&reader, &partial, how);
    partial.settle();
    let resumed = copied?;
    if how.verify {
        compare(&reader, &partial, how)?;
    }
    finish(&container, partial, how)?;
    Ok(Merged { size: reader.size(), resumed })
}

fn refuse_damage(from: &Path) -> Result<()> {
    check(from, &Check { data: true, ..Check::default() })?.demand_undamaged(from)
}

/// The unfinished copy, and which windows of it are done.
struct Partial<'a> {
    output: Output<'a>,
    journal: Option<Journal>,
}

impl<'a> Partial<'a> {
    fn open(
        container: &Container,
        reader: &Reader,
        to: &Path,
        how: &Merge<'a>,
    ) -> Result<Partial<'a>> {
        // What is being written may change without another generation.
        let (output, journal) = if how.resume && reader.is_sealed() {
            let (journal, data, hidden) = Journal::open(container, reader, to)?;
            (Output::kept(data, hidden, to, how.unfinished), Some(journal))
        } else {
            (Output::create(to, 0o600, how.unfinished)?, None)
        };
        let sized = output.file().set_len(reader.size());
        sized.map_err(|error| failed("ftruncate", &error, to))?;
        Ok(Self { output, journal })
    }

    fn is_done(&self, window: u64) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_done(window))
    }

    fn set_done(&self, window: u64) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.set_done(window, self.output.file()))
    }

    /// Notes which windows need not be copied again.
    fn settle(&self) {
        if let Some(journal) = &self.journal {
            // The error of the copy is what counts; what is not noted is copied again.
            let _ = journal.settle(self.output.file());
        }
    }

    fn write(&self, bytes: &[u8], at: Extent) -> Result<()> {
        let written = self.output.file().write_all_at(bytes, at.offset);
        written.map_err(|error| failed("pwrite", &error, self.output.path()).with_extent(at))
    }
}

/// Copies what is not done; returns how many bytes were.
fn copy(reader: &Reader, partial: &Partial<'_>, how: &Merge<'_>) -> Result<u64> {
    let resumed = AtomicU64::new(0);
    each_window(reader, how, &|at| reader.data_from(at), &|window, extent, buffer| {
        if partial.is_done(window) {
            resumed.fetch_add(extent.len, Ordering::Relaxed);
            return Ok(());
        }
        copy_window(reader, partial, extent, buffer)?;
        partial.set_done(window)
    })?;
    Ok(resumed.into_inner())
}

fn copy_window(
    reader: &Reader,
    partial: &Partial<'_>,
    extent: Extent,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    for part in segments_of_data(reader, extent)? {
        buffer.resize(part.len as usize, 0);
        read(reader, buffer, part)?;
        partial.write(buffer, part)?;
    }
    Ok(())
}

/// The parts of `extent` that somebody wrote; holes stay holes.
fn segments_of_data(reader: &Reader, extent: Extent) -> Result<Vec<Extent>> {
    let mut parts: Vec<Extent> = Vec::new();
    for segment in reader.segments(extent)?.iter().filter(|segment| segment.source.is_some()) {
        match parts.last_mut() {
            Some(last) if last.end() == segment.logical.offset => last.len += segment.logical.len,
            _ => parts.push(segment.logical),
        }
    }
    Ok(parts)
}

fn read(reader: &Reader, buffer: &mut [u8], extent: Extent) -> Result<()> {
    if reader.read_at(buffer, extent.offset)? as u64 == extent.len {
        return Ok(());
    }
    Err(damaged("the container ends before its size").with_extent(extent))
}

/// Compares the copy with the container; a window that differs, as after a crash of the system
/// while an earlier run was at work, is copied once more.
fn compare(reader: &Reader, partial: &Partial<'_>, how: &Merge<'_>) -> Result<()> {
    let (file, path, size) = (partial.output.file(), partial.output.path(), reader.size());
    let in_either = |at| {
        let copied = holes::next_data(file, path, at)?.unwrap_or(size);
        Ok(copied.min(reader.data_from(at)?))
    };
    each_window(reader, how, &in_either, &|_, extent, buffer| {
        if same(reader, partial, extent, buffer)? {
            return Ok(());
        }
        partial.write(&vec![0; extent.len as usize], extent)?;
        copy_window(reader, partial, extent, buffer)?;
        if same(reader, partial, extent, buffer)? {
            return Ok(());
        }
        let path = partial.output.path().display().to_string();
        Err(damaged("the copy differs from the container").with_extent(extent).with_path(&path))
    })
}

fn same(
    reader: &Reader,
    partial: &Partial<'_>,
    extent: Extent,
    buffer: &mut Vec<u8>,
) -> Result<bool> {
    buffer.resize(extent.len as usize, 0);
    read(reader, buffer, extent)?;
    let mut copy = vec![0; buffer.len()];
    let got = partial.output.file().read_exact_at(&mut copy, extent.offset);
    got.map_err(|error| failed("pread", &error, partial.output.path()).with_extent(extent))?;
    Ok(copy == *buffer)
}

/// Gives the copy the container's attributes and its name, and removes the journal.
fn finish(container: &Container, partial: Partial<'_>, how: &Merge<'_>) -> Result<()> {
    let Partial { output, journal } = partial;
    let attributes = container.attributes()?;
    let fail = |error: std::io::Error| failed("fsync", &error, output.path());
    let source = Source { uid: attributes.uid, gid: attributes.gid };
    output.set_mode(attributes.mode, source)?;
    output.file().set_times(FileTimes::new().set_modified(attributes.mtime)).map_err(fail)?;
    output.file().sync_all().map_err(fail)?;
    output.publish(how.replace)?;
    journal.map_or(Ok(()), Journal::remove)
}

//! Copies a container to an ordinary file, window by window and with several threads. An
//! interrupted copy leaves nothing, or is resumed by a later run on request (`journal.rs`).

mod journal;
mod windows;

use crate::directory::holes;
use crate::errors::{damaged, damaged_at, failed};
use crate::file::Container;
use crate::output::{Output, Source, Unfinished, require_vacant};
use crate::reading::{Reader, Verify};
use crate::repair::{Check, check};
use aggio_base::checksum::{crc32c, crc32c_append};
use aggio_base::{Extent, Result};
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
    /// Records the hidden name that the file has until it is complete.
    pub unfinished: &'a Unfinished,
}

/// The result of merging.
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
/// other than an ordinary file has its name. Then nothing is left; with `resume`, the unfinished
/// copy stays for the next run.
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
        // Content that is being written may change without a new generation.
        let (output, journal) = if how.resume && reader.is_sealed() {
            let (journal, data, hidden) = Journal::open(container, reader, to, how.unfinished)?;
            (Output::kept(data, hidden, to, how.unfinished), Some(journal))
        } else {
            (Output::create(to, 0o600, how.unfinished)?, None)
        };
        let sized = output.file().set_len(reader.size());
        sized.map_err(|error| failed("ftruncate", &error, to))?;
        Ok(Self { output, journal })
    }

    /// Whether an earlier run began it.
    fn goes_on(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::goes_on)
    }

    /// Whether an earlier run copied a window, which still has the bytes that it had then.
    fn is_done(&self, window: u64, extent: Extent, buffer: &mut Vec<u8>) -> Result<bool> {
        let done = self.journal.as_ref().and_then(|journal| journal.done(window));
        let Some(crc) = done else { return Ok(false) };
        self.read(buffer, extent)?;
        Ok(crc32c(buffer) == crc)
    }

    /// Clears a window that has bytes from an earlier run, or from a change of its copy.
    fn clear(&self, extent: Extent, buffer: &mut Vec<u8>) -> Result<()> {
        self.read(buffer, extent)?;
        if buffer.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        buffer.fill(0);
        self.write(buffer, extent)
    }

    /// Records that a window is copied, with the checksum of its content.
    fn set_done(&self, window: u64, crc: u32) -> Result<()> {
        let note = |journal: &Journal| journal.set_done(window, crc, self.output.file());
        self.journal.as_ref().map_or(Ok(()), note)
    }

    fn read(&self, buffer: &mut Vec<u8>, extent: Extent) -> Result<()> {
        buffer.resize(extent.len as usize, 0);
        let got = self.output.file().read_exact_at(buffer, extent.offset);
        got.map_err(|error| failed("pread", &error, self.output.path()).with_extent(extent))
    }

    /// Notes which windows need not be copied again.
    fn settle(&self) {
        if let Some(journal) = &self.journal {
            // Report the error of the copy. Windows that are not recorded are copied again.
            let _ = journal.settle(self.output.file());
        }
    }

    fn write(&self, bytes: &[u8], at: Extent) -> Result<()> {
        let written = self.output.file().write_all_at(bytes, at.offset);
        written.map_err(|error| failed("pwrite", &error, self.output.path()).with_extent(at))
    }
}

/// Copies all windows that are not done; returns how many bytes were done.
fn copy(reader: &Reader, partial: &Partial<'_>, how: &Merge<'_>) -> Result<u64> {
    let resumed = AtomicU64::new(0);
    let next = |at| {
        // A resumed copy may have bytes where the container has a hole.
        if partial.goes_on() { in_either(reader, partial, at) } else { reader.data_from(at) }
    };
    each_window(reader, how, &next, &|window, extent, buffer| {
        if partial.goes_on() {
            if partial.is_done(window, extent, buffer)? {
                resumed.fetch_add(extent.len, Ordering::Relaxed);
                return Ok(());
            }
            partial.clear(extent, buffer)?;
        }
        let crc = copy_window(reader, partial, extent, buffer)?;
        partial.set_done(window, crc)
    })?;
    Ok(resumed.into_inner())
}

/// The first byte from `at` on that the container or the copy may have.
fn in_either(reader: &Reader, partial: &Partial<'_>, at: u64) -> Result<u64> {
    let (file, path) = (partial.output.file(), partial.output.path());
    let copied = holes::next_data(file, path, at)?.unwrap_or(reader.size());
    Ok(copied.min(reader.data_from(at)?))
}

/// Copies a window. Returns the checksum of all its bytes if it goes to a journal.
fn copy_window(
    reader: &Reader,
    partial: &Partial<'_>,
    extent: Extent,
    buffer: &mut Vec<u8>,
) -> Result<u32> {
    let (mut crc, mut end) = (0, extent.offset);
    let is_noted = partial.journal.is_some();
    for part in segments_of_data(reader, extent)? {
        buffer.resize(part.len as usize, 0);
        read(reader, buffer, part)?;
        partial.write(buffer, part)?;
        if is_noted {
            crc = crc32c_append(with_zeros(crc, part.offset - end), buffer);
            end = part.end();
        }
    }
    Ok(if is_noted { with_zeros(crc, extent.end() - end) } else { 0 })
}

/// The checksum of bytes with this checksum and so many zeros.
fn with_zeros(mut crc: u32, mut count: u64) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    while count > 0 {
        let some = count.min(ZEROS.len() as u64);
        crc = crc32c_append(crc, &ZEROS[..some as usize]);
        count -= some;
    }
    crc
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
    each_window(reader, how, &|at| in_either(reader, partial, at), &|_, extent, buffer| {
        if same(reader, partial, extent, buffer)? {
            return Ok(());
        }
        partial.write(&vec![0; extent.len as usize], extent)?;
        copy_window(reader, partial, extent, buffer)?;
        if same(reader, partial, extent, buffer)? {
            return Ok(());
        }
        let words = "the copy differs from the container";
        Err(damaged_at(partial.output.path(), words).with_extent(extent))
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
    let mut copy = Vec::new();
    partial.read(&mut copy, extent)?;
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

//! An ordinary file becomes a container.

use crate::directory::{holes, remove_tree};
use crate::errors::{damaged_at, failed, refused};
use crate::file::{Container, Create};
use crate::output::{Source, Unfinished, fresh_beside, kept_mode, rename_new, require_vacant};
use crate::reading::Verify;
use aggio_base::{ErrorClass, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// How a file is split.
#[derive(Clone, Copy)]
pub struct Split<'a> {
    /// Bytes of a frame; 0 for 4 MiB.
    pub frame: u64,
    /// Whether frames carry a checksum of their data.
    pub data_crc: bool,
    /// Whether the container is read and compared with the file before it gets its name.
    pub verify: bool,
    /// Called now and then with the bytes done and their total.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Records the hidden name that the container has until it is complete.
    pub unfinished: &'a Unfinished,
}

/// Makes the container `to`, which must not exist, of the ordinary file `from`, which stays.
///
/// # Errors
///
/// If `from` cannot be read or changes meanwhile, or the container cannot be made; then there is
/// none.
pub fn split(from: &Path, to: &Path, how: &Split<'_>) -> Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(from)
        .map_err(|error| failed("open", &error, from))?;
    let facts = file.metadata().map_err(|error| failed("fstat", &error, from))?;
    if !facts.is_file() {
        return Err(refused((ErrorClass::Io, libc::EINVAL), from, "it is not a regular file"));
    }
    require_vacant(to, false)?;
    let temporary = fresh_beside(to)?;
    let mode = facts.permissions().mode();
    let create = Create { mode: 0o600, exclusive: true, data_crc: how.data_crc };
    let container = || Container::make_hidden(&temporary, &create);
    let container = how.unfinished.add(&temporary, container)?;
    let made = fill(&file, from, &container, facts.len(), how).and_then(|()| {
        container.set_mode(kept_mode(mode, Source::of(&facts), &container.owner()?))?;
        container.set_times(facts.accessed().ok(), facts.modified().ok())?;
        how.unfinished.undisturbed(|| rename_new(&temporary, to))
    });
    how.unfinished.forget(&temporary, || {
        if made.is_err() {
            // Report the original error.
            let _ = remove_tree(&temporary);
        }
    });
    made
}

fn fill(file: &File, from: &Path, container: &Container, size: u64, how: &Split<'_>) -> Result<()> {
    let writer = container.writer()?;
    let frame = if how.frame == 0 { 4 << 20 } else { how.frame };
    let mut buffer = Vec::new();
    let mut at = 0;
    while let Some(start) = holes::next_data(file, from, at)?.filter(|start| *start < size) {
        // Frames begin at multiples of their size, so they are one run.
        at = start - start % frame;
        buffer.resize(frame.min(size - at) as usize, 0);
        file.read_exact_at(&mut buffer, at).map_err(|error| failed("pread", &error, from))?;
        writer.write_at(&buffer, at)?;
        at += buffer.len() as u64;
        if let Some(progress) = how.progress {
            progress(at, size);
        }
    }
    writer.set_size(size)?;
    writer.sync()?;
    writer.close()?;
    if how.verify {
        compare(file, from, container, size, frame)?;
    }
    Ok(())
}

fn compare(file: &File, from: &Path, container: &Container, size: u64, step: u64) -> Result<()> {
    let reader = container.reader()?.verifying(Verify::Always)?;
    let (mut one, mut other) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < size {
        // Holes in both are equal.
        let in_file = holes::next_data(file, from, at)?.unwrap_or(size);
        at = in_file.min(reader.data_from(at)?);
        let n = step.min(size - at) as usize;
        one.resize(n, 0);
        other.resize(n, 0);
        file.read_exact_at(&mut one, at).map_err(|error| failed("pread", &error, from))?;
        if reader.read_at(&mut other, at)? != n || one != other {
            let words =
                format!("the container differs from the file in bytes {at}..{}", at + n as u64);
            return Err(damaged_at(from, words));
        }
        at += n as u64;
    }
    Ok(())
}

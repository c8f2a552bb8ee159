//! Reads single parts without a container around them, for tools that show them and for fuzzers.

use crate::errors::{damaged, failed};
use crate::format::{FILE_END, Frame, HEADER, Manifest, checksum, u32_at, u64_at};
use crate::index::Index;
use crate::index::header::HEADER as INDEX_HEADER;
use crate::log::summary;
use aggio_base::{Extent, Result, os};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Reads a manifest; returns it as this version writes it.
///
/// # Errors
///
/// Says which line is wrong.
pub fn manifest(bytes: &[u8]) -> Result<String> {
    Manifest::parse(bytes).map(|manifest| manifest.to_text())
}

/// Reads header and runs of a frame; returns them as this version writes them.
///
/// # Errors
///
/// If the frame is not valid.
pub fn frame(bytes: &[u8]) -> Result<Vec<u8>> {
    Frame::decode(bytes).map(|frame| frame.encode())
}

/// Reads the summary with which a log of these bytes ends; the number of its pieces, `None` if it
/// has none.
///
/// # Errors
///
/// If the bytes cannot be read.
pub fn summary(bytes: &[u8]) -> Result<Option<u64>> {
    let path = PathBuf::from("log");
    let file = in_memory(bytes, &path)?;
    let id = if bytes.len() < HEADER { 0 } else { u64_at(bytes, 40) };
    let told = summary::find(&file, &path, (id, 0), bytes.len() as u64)?;
    Ok(told.map(|told| told.runs.iter().map(|run| run.count).sum()))
}

/// A log of zeros with a summary of as many runs as the first byte says, with the others as their
/// code and checksums that fit.
pub fn log_with_summary(bytes: &[u8]) -> Vec<u8> {
    let (count, runs) = bytes.split_first().unwrap_or((&0, &[]));
    summary::after_zeros(runs, u64::from(*count))
}

/// The bytes with a checksum that fits: fuzzers seldom guess one.
pub fn frame_with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEADER {
        let crc = checksum(&bytes);
        bytes[HEADER - 4..HEADER].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// The number of pieces in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Runs of several pieces.
    pub runs: u64,
    /// Single pieces.
    pub singles: u64,
}

/// Reads an index with all its pieces.
///
/// # Errors
///
/// If the index is not valid.
pub fn index(bytes: &[u8]) -> Result<Pieces> {
    let path = PathBuf::from("index");
    let file = in_memory(bytes, &path)?;
    let crc = u32_at(bytes, INDEX_HEADER - 4);
    let index = Index::open(file, path, crc, |_| Some(FILE_END))?;
    let mut pieces = Pieces { runs: 0, singles: 0 };
    index.all(&mut |run| match run.count {
        1 => pieces.singles += 1,
        _ => pieces.runs += 1,
    })?;
    for offset in [0, 1 << 20, FILE_END - 4096] {
        let range = Extent::new(offset, 4096);
        let mut wrong = false;
        index.in_range(range, &mut |run, numbers| {
            wrong |=
                numbers.end > run.count || run.piece(numbers.start).intersect(range).is_empty();
        })?;
        if wrong {
            return Err(damaged("a piece was found outside of the range"));
        }
    }
    Ok(pieces)
}

/// A file without a name that has these bytes.
fn in_memory(bytes: &[u8], path: &Path) -> Result<File> {
    let fd = os::memory_file(c"index").map_err(|error| failed("memfd_create", &error, path))?;
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { File::from_raw_fd(fd) };
    file.write_all_at(bytes, 0).map_err(|error| failed("pwrite", &error, path))?;
    Ok(file)
}
